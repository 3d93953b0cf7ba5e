//! Values: why a table can't be read, and where.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};

/// No more of an offending value is kept.
const VALUE_SHOWN: usize = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It can't be opened or read.
    File,
    /// It is not what its format allows: cut off, changed, or made so.
    Damaged,
    /// It is whole, and uses what is not read here: encryption, a codec, lists of lists.
    Unsupported,
    /// A value that is not what was asked for.
    Value,
    /// What was asked for is not there: a column, a row group.
    Asked,
}

impl Kind {
    /// The stable name, as in exceptions.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Damaged => "damaged",
            Self::Unsupported => "unsupported",
            Self::Value => "value",
            Self::Asked => "asked",
        }
    }
}

/// What stopped a reader. Results are as small as what they hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault(Box<Detail>);

/// Lines of text count from 1, row groups and rows from 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    pub kind: Kind,
    pub file: String,
    pub group: Option<u64>,
    /// In its row group, or among the rows of its part.
    pub row: Option<u64>,
    pub line: Option<u64>,
    pub column: Option<String>,
    pub value: Option<String>,
    pub text: String,
}

pub type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        let text = text.into();
        let file = String::new();
        Self(Box::new(Detail { kind, file, group: None, row: None, line: None, column: None, value: None, text }))
    }

    pub fn detail(self) -> Detail {
        *self.0
    }

    pub fn damaged(text: impl Into<String>) -> Self {
        Self::new(Kind::Damaged, text)
    }

    pub fn unsupported(text: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported, text)
    }

    pub fn asked(text: impl Into<String>) -> Self {
        Self::new(Kind::Asked, text)
    }

    pub fn in_file(mut self, file: &str) -> Self {
        self.file = file.into();
        self
    }

    pub fn in_group(mut self, group: usize) -> Self {
        self.group = Some(group as u64);
        self
    }

    pub fn in_column(mut self, column: &str) -> Self {
        self.column = Some(column.into());
        self
    }
}

impl Deref for Fault {
    type Target = Detail;

    fn deref(&self) -> &Detail {
        &self.0
    }
}

impl DerefMut for Fault {
    fn deref_mut(&mut self) -> &mut Detail {
        &mut self.0
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::new(Kind::File, format!("it can't be read: {error}"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(to, ":{line}")?;
        }
        let mut places = Vec::new();
        if let Some(group) = self.group {
            places.push(format!("row group {group}"));
        }
        if let Some(row) = self.row {
            places.push(format!("row {row}"));
        }
        if let Some(column) = &self.column {
            places.push(format!("column {column:?}"));
        }
        if !places.is_empty() {
            write!(to, ": {}", places.join(", "))?;
        }
        write!(to, ": {}", self.text)?;
        match &self.value {
            Some(value) => write!(to, ": {value:?}"),
            None => Ok(()),
        }
    }
}

/// What a value looks like in a message.
pub fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(&value[..value.len().min(VALUE_SHOWN)]).into_owned();
    if value.len() > VALUE_SHOWN { format!("{text}...") } else { text }
}
