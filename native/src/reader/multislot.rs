//! The parser of MultiSlot text: what a `pipe_command` of Paddle's datasets prints. It does no I/O.
//!
//! ```text
//! 3 1926 8 17 1 0.5 1 1        one line per sample; for each slot how many values follow, and these
//! ```
//!
//! Slots have no names here, only an order. A line that ends early, or has something that is no number, is an error that names
//! line and slot; the block that it stands in gives no samples. What a line has behind the last slot is passed over, as Paddle
//! does, and told.

use super::fault::{Reason, shown};
use super::number::{self, Digits, PAD};
use super::samples::{Column, Samples, Values};

/// Paddle's datasets in memory take a smaller value of a float slot for none.
const NEARLY_ZERO: f32 = 1e-6;

/// A slot: which values it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotForm {
    /// float32, or else ids of 64 bits.
    pub is_float: bool,
    /// The number of values of a sample must be a multiple of it; 0: any number.
    pub dim: usize,
    /// Whether zeros are left out, of which one stays if there is nothing else.
    pub drops_zeros: bool,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    Blank,
    /// The line ends where a count or a value is expected.
    Short,
    NotACount,
    /// A slot with no values at all.
    Empty,
    /// A text field (an instance's id) that is not one text.
    NotOneText,
    /// Of a slot of fixed width.
    Width,
    Value(Reason),
}

impl Trouble {
    /// The stable name, as in exceptions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blank => "blank",
            Self::Short => "short",
            Self::NotACount => "not_a_count",
            Self::Empty => "empty",
            Self::NotOneText => "not_one_text",
            Self::Width => "width",
            Self::Value(reason) => reason.name(),
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::Blank => "the line is blank",
            Self::Short => "the line ends too early",
            Self::NotACount => "not a number of values",
            Self::Empty => "a slot without a value: the program must fill it up, for instance with 0",
            Self::NotOneText => "an id or a content that is not one text",
            Self::Width => "a wrong number of values",
            Self::Value(reason) => reason.text(),
        }
    }
}

/// The first bad line of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSample {
    pub trouble: Trouble,
    /// From 0.
    pub line: u64,
    /// In bytes, from 1.
    pub column: u64,
    /// From 0; `None` if it is not about a slot.
    pub slot: Option<usize>,
    pub token: String,
    pub detail: String,
}

/// What a block holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    pub samples: Samples,
    /// The first line that has something behind its last slot, from 0.
    pub surplus: Option<u64>,
}

/// Whole lines; the last one may lack its newline. `texts` fields of one text each stand before the slots.
pub fn parse(text: &[u8], slots: &[SlotForm], texts: usize) -> Result<Parsed, BadSample> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it.
        return unsafe { parse_wide(text, slots, texts) };
    }
    // SAFETY: it asks nothing of the processor.
    unsafe { parse_with::<number::Plain>(text, slots, texts) }
}

/// SAFETY: the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn parse_wide(text: &[u8], slots: &[SlotForm], texts: usize) -> Result<Parsed, BadSample> {
    // SAFETY: the caller's promise.
    unsafe { parse_with::<number::Wide>(text, slots, texts) }
}

/// SAFETY: the processor must have what `D` is made for.
#[inline(always)]
unsafe fn parse_with<D: Digits>(text: &[u8], slots: &[SlotForm], texts: usize) -> Result<Parsed, BadSample> {
    let mut columns: Vec<Column> = slots.iter().map(|slot| Column::new(slot.is_float)).collect();
    let (mut at, mut lines, mut surplus) = (0, 0u64, None);
    while at < text.len() {
        let mut line = Line { text, begin: at, at, number: lines };
        line.pass_texts(texts)?;
        for (slot, (form, column)) in slots.iter().zip(&mut columns).enumerate() {
            let count = line.count(slot, form)?;
            // SAFETY: the caller's promise.
            unsafe { line.values::<D>(slot, form, count, column)? };
            column.end_sample();
        }
        let rest = line.token();
        let end = line.end();
        if !rest.is_empty() && surplus.is_none() {
            surplus = Some(lines);
        }
        at = end + 1;
        lines += 1;
    }
    Ok(Parsed { samples: Samples { size: lines as usize, columns }, surplus })
}

/// A line that is being read, up to `at`.
struct Line<'a> {
    text: &'a [u8],
    begin: usize,
    at: usize,
    number: u64,
}

impl<'a> Line<'a> {
    /// The next token of this line; an empty one at its end.
    #[inline(always)]
    fn token(&mut self) -> &'a [u8] {
        while let Some(&byte) = self.text.get(self.at)
            && byte <= b' '
            && byte != b'\n'
        {
            self.at += 1;
        }
        let start = self.at;
        while let Some(&byte) = self.text.get(self.at)
            && byte > b' '
        {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// Where its newline is, or the end of the text.
    fn end(&self) -> usize {
        memchr::memchr(b'\n', &self.text[self.at..]).map_or(self.text.len(), |more| self.at + more)
    }

    fn pass_texts(&mut self, texts: usize) -> Result<(), BadSample> {
        for _ in 0..texts {
            let count = self.token();
            if count != b"1" {
                let trouble = if count.is_empty() { self.ended() } else { Trouble::NotOneText };
                return Err(self.bad(trouble, None, count, "1 and a text are expected".into()));
            }
            if self.token().is_empty() {
                return Err(self.bad(Trouble::Short, None, b"", "a text is expected".into()));
            }
        }
        Ok(())
    }

    fn ended(&self) -> Trouble {
        let is_blank = self.text[self.begin..self.at].iter().all(|&byte| byte <= b' ');
        if is_blank { Trouble::Blank } else { Trouble::Short }
    }

    #[inline(always)]
    fn count(&mut self, slot: usize, form: &SlotForm) -> Result<usize, BadSample> {
        let token = self.token();
        // Most slots have fewer than ten values.
        let count = match *token {
            [digit @ b'1'..=b'9'] => usize::from(digit - b'0'),
            _ => self.long_count(slot, token)?,
        };
        if form.dim > 1 && count % form.dim != 0 {
            let detail = format!("{} expected, {count} found", form.dim);
            return Err(self.bad(Trouble::Width, Some(slot), token, detail));
        }
        Ok(count)
    }

    #[inline(never)]
    fn long_count(&self, slot: usize, token: &[u8]) -> Result<usize, BadSample> {
        if token.is_empty() {
            return Err(self.bad(self.ended(), Some(slot), token, "a number of values is expected".into()));
        }
        let count = (token.len() <= 18 && token.iter().all(u8::is_ascii_digit))
            .then(|| token.iter().fold(0usize, |value, digit| value * 10 + usize::from(digit - b'0')));
        match count {
            None => Err(self.bad(Trouble::NotACount, Some(slot), token, String::new())),
            Some(0) => Err(self.bad(Trouble::Empty, Some(slot), token, String::new())),
            Some(count) => Ok(count),
        }
    }

    /// SAFETY: the processor must have what `D` is made for.
    #[inline(always)]
    unsafe fn values<D: Digits>(
        &mut self,
        slot: usize,
        form: &SlotForm,
        count: usize,
        into: &mut Column,
    ) -> Result<(), BadSample> {
        let mut found = 0;
        match &mut into.values {
            Values::Ids(values) => {
                let before = values.len();
                while found < count {
                    let token = self.token();
                    // SAFETY: the caller's promise.
                    let value = match unsafe { self.fast(token, number::id::<D>) } {
                        Some(value) => value,
                        None => {
                            number::slow_id(token).map_err(|reason| self.wrong(slot, token, reason, found, count))?
                        }
                    };
                    found += 1;
                    if value != 0 || !form.drops_zeros {
                        values.push(value);
                    }
                }
                if values.len() == before {
                    values.push(0);
                }
            }
            Values::Floats(values) => {
                let before = values.len();
                while found < count {
                    let token = self.token();
                    // SAFETY: the caller's promise.
                    let value = match unsafe { self.fast(token, number::float::<D>) } {
                        Some(value) => value,
                        None => {
                            number::slow_float(token).map_err(|reason| self.wrong(slot, token, reason, found, count))?
                        }
                    };
                    found += 1;
                    if !form.drops_zeros || value.abs() >= NEARLY_ZERO {
                        values.push(value);
                    }
                }
                if values.len() == before {
                    values.push(0.0);
                }
            }
        }
        Ok(())
    }

    /// The fast ways read beyond a number, so they are not for the last ones of a text.
    ///
    /// SAFETY: `read` may read the token and `PAD` bytes behind it.
    #[inline(always)]
    unsafe fn fast<T>(&self, token: &[u8], read: unsafe fn(*const u8, usize) -> Option<T>) -> Option<T> {
        if token.is_empty() || self.at + PAD > self.text.len() {
            return None;
        }
        // SAFETY: the token is a part of the text, and so many bytes are behind it.
        unsafe { read(token.as_ptr(), token.len()) }
    }

    #[inline(never)]
    fn wrong(&self, slot: usize, token: &[u8], reason: Reason, found: usize, count: usize) -> BadSample {
        if token.is_empty() {
            let detail = format!("{count} values expected, {found} found");
            return self.bad(Trouble::Short, Some(slot), token, detail);
        }
        self.bad(Trouble::Value(reason), Some(slot), token, String::new())
    }

    #[inline(never)]
    fn bad(&self, trouble: Trouble, slot: Option<usize>, token: &[u8], detail: String) -> BadSample {
        let column = (self.at - token.len() - self.begin) as u64 + 1;
        BadSample { trouble, line: self.number, column, slot, token: shown(token), detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SlotForm = SlotForm { is_float: false, dim: 0, drops_zeros: false };
    const FLOAT: SlotForm = SlotForm { is_float: true, dim: 0, drops_zeros: false };

    fn ids(column: &Column) -> &[u64] {
        match &column.values {
            Values::Ids(values) => values,
            Values::Floats(_) => panic!("ids are expected"),
        }
    }

    fn floats(column: &Column) -> &[f32] {
        match &column.values {
            Values::Floats(values) => values,
            Values::Ids(_) => panic!("floats are expected"),
        }
    }

    #[test]
    fn a_line_is_counts_and_values() {
        let parsed = parse(b"3 1926 8 17 1 0.5\n1 18446744073709551615 2 -1 2e3", &[ID, FLOAT], 0).unwrap();
        assert_eq!((parsed.samples.size, parsed.surplus), (2, None));
        assert_eq!(ids(&parsed.samples.columns[0]), [1926, 8, 17, u64::MAX]);
        assert_eq!(parsed.samples.columns[0].offsets, [0, 3, 4]);
        assert_eq!(floats(&parsed.samples.columns[1]), [0.5, -1.0, 2000.0]);
        assert_eq!(parsed.samples.columns[1].offsets, [0, 1, 3]);
        assert_eq!(parse(b"", &[ID], 0).unwrap().samples.size, 0);
    }

    #[test]
    fn text_fields_and_what_is_left_over_are_passed() {
        let parsed = parse(b"1 abc 1 5\n1 d 1 6 1 7 x\n", &[ID], 1).unwrap();
        assert_eq!((ids(&parsed.samples.columns[0]), parsed.surplus), (&[5, 6][..], Some(1)));
    }

    #[test]
    fn zeros_are_left_out_where_that_is_wanted() {
        let drop = |form| SlotForm { drops_zeros: true, ..form };
        let parsed = parse(b"3 0 8 0 1 0.0\n1 0 2 1e-7 3\n", &[drop(ID), drop(FLOAT)], 0).unwrap();
        assert_eq!(ids(&parsed.samples.columns[0]), [8, 0]);
        assert_eq!(floats(&parsed.samples.columns[1]), [0.0, 3.0]);
        assert_eq!(parsed.samples.columns[1].offsets, [0, 1, 2]);
    }

    #[test]
    fn a_bad_line_is_named() {
        let wide = SlotForm { dim: 2, ..FLOAT };
        for (text, trouble, line, slot, token) in [
            ("1 1 2 1 2\n\n", Trouble::Blank, 1, Some(0), ""),
            ("1 1 2 1 2\n1 1\n", Trouble::Short, 1, Some(1), ""),
            ("2 1\n2 1 2\n", Trouble::Short, 0, Some(0), ""),
            ("x 1\n", Trouble::NotACount, 0, Some(0), "x"),
            ("-1 1\n", Trouble::NotACount, 0, Some(0), "-1"),
            ("99999999999999999999 1\n", Trouble::NotACount, 0, Some(0), "99999999999999999999"),
            ("0 2 1 2\n", Trouble::Empty, 0, Some(0), "0"),
            ("1 1 3 1 2 3\n", Trouble::Width, 0, Some(1), "3"),
            ("1 1.5 2 1 2\n", Trouble::Value(Reason::NotAnId), 0, Some(0), "1.5"),
            ("1 1 2 1 nan\n", Trouble::Value(Reason::NotANumber), 0, Some(1), "nan"),
            ("999999999999999999 1 2\n", Trouble::Short, 0, Some(0), ""),
        ] {
            let bad = parse(text.as_bytes(), &[ID, wide], 0).unwrap_err();
            assert_eq!((bad.trouble, bad.line, bad.slot, bad.token.as_str()), (trouble, line, slot, token), "{text}");
        }
        assert_eq!(parse(b"2 a 1 5\n", &[ID], 1).unwrap_err().trouble, Trouble::NotOneText);
        assert_eq!(parse(b"1 1 2 x 5\n", &[ID, ID], 0).unwrap_err().column, 7);
    }

    #[test]
    fn what_was_written_is_read() {
        let slots = [ID, FLOAT, SlotForm { dim: 3, ..FLOAT }, ID];
        for round in 0..50u64 {
            let mut draws = (round << 32..).map(crate::keys::mix);
            let mut draw = || draws.next().unwrap_or_default();
            let mut text = String::new();
            let (mut expected_ids, mut expected_floats) = (Vec::new(), Vec::new());
            for _ in 0..200 {
                for (slot, form) in slots.iter().enumerate() {
                    let count = if form.dim > 0 { form.dim } else { 1 + (draw() % 12) as usize };
                    text += &format!("{}{count}", if slot > 0 { [" ", "  ", "\t"][(draw() % 3) as usize] } else { "" });
                    for _ in 0..count {
                        let value = draw() >> (draw() % 64);
                        if form.is_float {
                            let value = value as f32 / 1000.0;
                            text += &format!(" {value}");
                            expected_floats.push((slot, value));
                        } else {
                            text += &format!(" {value}");
                            expected_ids.push((slot, value));
                        }
                    }
                }
                text += ["\n", "\r\n", " \n"][(draw() % 3) as usize];
            }
            let parsed = parse(text.as_bytes(), &slots, 0).unwrap();
            assert_eq!((parsed.samples.size, parsed.surplus), (200, None));
            for (slot, form) in slots.iter().enumerate() {
                let column = &parsed.samples.columns[slot];
                assert_eq!(column.offsets.len(), 201);
                if form.is_float {
                    let expected: Vec<f32> = expected_floats.iter().filter(|of| of.0 == slot).map(|of| of.1).collect();
                    assert_eq!(floats(column), expected);
                } else {
                    let expected: Vec<u64> = expected_ids.iter().filter(|of| of.0 == slot).map(|of| of.1).collect();
                    assert_eq!(ids(column), expected);
                }
            }
        }
    }

    /// Bytes that are nearly right: no panic, no endless loop, and columns of as many samples each.
    #[test]
    fn any_bytes_give_samples_or_one_error() {
        let slots = [ID, SlotForm { dim: 2, ..FLOAT }];
        let good = b"2 1 22 4 0.5 1 2e3 -1\n1 7 2 1 0\n";
        for round in 0..200_000u64 {
            let mut draws = (round << 16..).map(crate::keys::mix);
            let mut draw = || draws.next().unwrap_or_default() as usize;
            let mut bytes = good.repeat(1 + draw() % 6);
            for _ in 0..draw() % 4 {
                let at = draw() % bytes.len();
                match draw() % 3 {
                    0 => bytes[at] = b"0123456789 \n.e-x\0\xff\t\r"[draw() % 20],
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"0123456789 \n.e-x\0\xff\t\r"[draw() % 20]),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            match parse(&bytes, &slots, 0) {
                Ok(parsed) => {
                    let lines = bytes.split(|&byte| byte == b'\n').count() - usize::from(bytes.ends_with(b"\n"));
                    assert_eq!(parsed.samples.size, if bytes.is_empty() { 0 } else { lines });
                    for column in &parsed.samples.columns {
                        assert_eq!(column.offsets.len(), parsed.samples.size + 1);
                        assert_eq!(column.offsets.last().copied(), Some(column.values.len() as i64));
                    }
                }
                Err(bad) => assert!(bad.line < bytes.len() as u64 + 1),
            }
        }
    }
}
