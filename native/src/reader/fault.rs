//! Values: what is wrong with a line, and what a reader stops with.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// No more of an offending token is kept.
const TOKEN_SHOWN: usize = 80;

/// Why a line is a bad one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No fault: such a line is passed over and counted apart.
    Blank,
    NoColon,
    NoName,
    NoValue,
    NotAnId,
    IdRange,
    NotANumber,
    NumberRange,
    DenseCount,
    DenseMissing,
    UnknownSlot,
    TooLong,
}

impl Reason {
    /// The stable name, as in statistics and exceptions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blank => "blank",
            Self::NoColon => "no_colon",
            Self::NoName => "no_name",
            Self::NoValue => "no_value",
            Self::NotAnId => "not_an_id",
            Self::IdRange => "id_range",
            Self::NotANumber => "not_a_number",
            Self::NumberRange => "number_range",
            Self::DenseCount => "dense_count",
            Self::DenseMissing => "dense_missing",
            Self::UnknownSlot => "unknown_slot",
            Self::TooLong => "too_long",
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::Blank => "the line is blank",
            Self::NoColon => "a token without a colon: it must be slot:value",
            Self::NoName => "a token without a slot's name before its colon",
            Self::NoValue => "a token without a value after its colon",
            Self::NotAnId => "not an id: an integer is expected",
            Self::IdRange => "the id is out of range: -2^63 to 2^64 - 1 are possible",
            Self::NotANumber => "not a number",
            Self::NumberRange => "the number is too large for float32",
            Self::DenseCount => "a dense slot with a wrong number of values",
            Self::DenseMissing => "a dense slot is missing",
            Self::UnknownSlot => "the slot was not asked for",
            Self::TooLong => "the line is too long",
        }
    }
}

/// A line that gives no sample. Columns count bytes from 1; `token` is the offending one, shortened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BadLine {
    pub file: String,
    pub line: u64,
    pub column: u64,
    /// Where the line begins, in the uncompressed input.
    pub offset: u64,
    pub token: String,
    pub reason: Reason,
    /// More about it, as "13 expected, 12 found".
    pub detail: String,
}

/// What a token looks like in a message.
pub fn shown(token: &[u8]) -> String {
    let text = String::from_utf8_lossy(&token[..token.len().min(TOKEN_SHOWN)]).into_owned();
    if token.len() > TOKEN_SHOWN { format!("{text}...") } else { text }
}

/// What an input is instead of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotText {
    Bzip2,
    Xz,
    Zip,
    Lz4,
    Utf16,
    /// Without the mark that tells it.
    UnmarkedUtf16,
}

impl NotText {
    /// The stable name, as in exceptions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
            Self::Zip => "zip",
            Self::Lz4 => "lz4",
            Self::Utf16 => "utf-16",
            Self::UnmarkedUtf16 => "unmarked-utf-16",
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::Bzip2 => "it is compressed with bzip2",
            Self::Xz => "it is compressed with xz",
            Self::Zip => "it is a zip archive",
            Self::Lz4 => "it is compressed with lz4",
            Self::Utf16 => "it is text in UTF-16; UTF-8 is expected",
            Self::UnmarkedUtf16 => "it looks like text in UTF-16; UTF-8 is expected",
        }
    }
}

/// Why a reader stopped.
#[derive(Debug)]
pub enum Fault {
    /// More bad lines than allowed; `seen` of them so far, this one the last.
    Line { bad: Box<BadLine>, seen: u64, limit: u64 },
    /// An input, or its cache, could not be opened, read or written.
    File { file: String, what: String, error: io::Error },
    /// An input that is not text.
    NotText { file: String, what: NotText },
    /// A position that does not belong here.
    Position(String),
    /// What was asked for can't be done.
    Asked(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { bad, seen, limit } => {
                write!(to, "{}:{}:{}: {}", bad.file, bad.line, bad.column, bad.reason.text())?;
                if !bad.token.is_empty() {
                    write!(to, ": {:?}", bad.token)?;
                }
                if !bad.detail.is_empty() {
                    write!(to, " ({})", bad.detail)?;
                }
                if *limit > 0 {
                    write!(to, "; it is bad line {seen}, and {limit} are allowed")?;
                }
                Ok(())
            }
            Self::File { file, what, error } => write!(to, "{file}: {what}: {error}"),
            Self::NotText { file, what } => write!(to, "{file}: {}", what.text()),
            Self::Position(text) | Self::Asked(text) => to.write_str(text),
        }
    }
}
