//! Values: what is read of a text file, whatever its format.

use std::sync::Arc;

use super::asked::Asked;
use super::fault::{Fault, Result};
use super::ranges::Ranges;

/// The rows that begin in a range of bytes, from the `first` of them on.
pub struct TextPart<'a> {
    pub name: &'a str,
    pub from: Arc<dyn Ranges>,
    pub start: u64,
    pub end: Option<u64>,
    pub first: u64,
    pub asked: &'a [Asked],
    /// Texts that mean that nothing is there.
    pub missing: Arc<Vec<Vec<u8>>>,
    /// Whether rows with bad values are left out, or the first one is an error.
    pub pass_bad: bool,
}

impl TextPart<'_> {
    /// With the name of the file in what went wrong.
    pub fn told<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|fault: Fault| fault.in_file(self.name))
    }
}
