//! Deciders: what is done to numbers, in float64. A missing one is NaN, and stays so.

/// One transformation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    Log1p,
    Log10,
    Sqrt,
    CriteoLog2,
    Clip(f64, f64),
    Zscore(f64, f64),
    Minmax(f64, f64),
}

/// Of numbers below it, log10 gives that of this one.
const LEAST_LOG10: f64 = 1e-3;

impl Step {
    pub fn named(name: &str, first: f64, second: f64) -> Option<Self> {
        Some(match name {
            "log1p" => Self::Log1p,
            "log10" => Self::Log10,
            "sqrt" => Self::Sqrt,
            "criteo_log2" => Self::CriteoLog2,
            "clip" => Self::Clip(first, second),
            "zscore" => Self::Zscore(first, second),
            "minmax" => Self::Minmax(first, second),
            _ => return None,
        })
    }

    fn of(self, number: f64) -> f64 {
        match self {
            Self::Log1p => number.abs().ln_1p().copysign(number),
            Self::Log10 if number < LEAST_LOG10 => -3.0,
            Self::Log10 => number.log10(),
            Self::Sqrt => number.abs().sqrt().copysign(number),
            Self::CriteoLog2 if number > 2.0 => {
                let log = number.ln();
                (log * log).floor()
            }
            Self::CriteoLog2 => number.trunc(),
            Self::Clip(low, high) => {
                if number < low {
                    low
                } else if number > high {
                    high
                } else {
                    number
                }
            }
            Self::Zscore(mean, std) => (number - mean) / if std == 0.0 { 1.0 } else { std },
            Self::Minmax(low, high) if low == high => number * 0.0,
            Self::Minmax(low, high) => (number - low) / (high - low),
        }
    }
}

/// All steps in order. Missing ones count as `fill`; without it they stay missing. -0 becomes 0.
pub fn transformed(numbers: &[f64], fill: Option<f64>, steps: &[Step]) -> Vec<f64> {
    let mut made: Vec<f64> = match fill {
        None => numbers.to_vec(),
        Some(fill) => numbers.iter().map(|&number| if number.is_nan() { fill } else { number }).collect(),
    };
    for &step in steps {
        made.iter_mut().filter(|number| !number.is_nan()).for_each(|number| *number = step.of(*number));
    }
    made.iter_mut().for_each(|number| *number += 0.0);
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_done_in_order_and_missing_ones_stay() {
        let steps = [Step::Clip(0.0, 10.0), Step::Zscore(5.0, 2.0)];
        let made = transformed(&[f64::NAN, -1.0, 7.0, f64::INFINITY], None, &steps);
        assert!(made[0].is_nan());
        assert_eq!(made[1..], [-2.5, 1.0, 2.5]);
        assert_eq!(transformed(&[f64::NAN], Some(9.0), &steps), [2.0]);
    }

    #[test]
    fn each_step_is_what_its_name_says() {
        let one = |step, number| transformed(&[number], None, &[step])[0];
        assert_eq!(one(Step::CriteoLog2, 10.0), 5.0);
        assert_eq!(one(Step::CriteoLog2, -1.5), -1.0);
        assert_eq!(one(Step::Sqrt, -4.0), -2.0);
        assert_eq!(one(Step::Log10, 0.0), -3.0);
        assert_eq!(one(Step::Log1p, -1.0), -(2f64.ln()));
        assert_eq!(one(Step::Minmax(2.0, 2.0), 7.0), 0.0);
        assert_eq!(one(Step::Zscore(2.0, 0.0), 7.0), 5.0);
        assert_eq!(one(Step::Sqrt, -0.0).to_bits(), 0);
        assert_eq!(Step::named("log2", 0.0, 0.0), None);
    }
}
