//! What is wrong with a description, collected so that a person can fix all of it at once.

/// The texts of what is wrong, each once.
#[derive(Default)]
pub struct Problems(Vec<String>);

impl Problems {
    pub fn unless(&mut self, fine: bool, text: std::fmt::Arguments<'_>) {
        if !fine {
            let text = text.to_string();
            if !self.0.contains(&text) {
                self.0.push(text);
            }
        }
    }

    pub fn verdict(self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0.join("; ")) }
    }

    pub fn finite(&mut self, of: &str, name: &str, number: f32) {
        self.unless(number.is_finite(), format_args!("{of}: {name} must be a finite number, not {number}"));
    }

    pub fn at_least_zero(&mut self, of: &str, name: &str, number: f32) {
        let fine = number.is_finite() && number >= 0.0;
        self.unless(fine, format_args!("{of}: {name} must be finite and not negative, not {number}"));
    }

    pub fn above_zero(&mut self, of: &str, name: &str, number: f32) {
        let fine = number.is_finite() && number > 0.0;
        self.unless(fine, format_args!("{of}: {name} must be finite and above 0, not {number}"));
    }

    pub fn below_one(&mut self, of: &str, name: &str, number: f32) {
        let fine = (0.0..1.0).contains(&number);
        self.unless(fine, format_args!("{of}: {name} must be at least 0 and below 1, not {number}"));
    }
}
