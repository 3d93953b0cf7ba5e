//! Values: what is asked of a column, and the types that columns have.

use super::canon::Unit;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing but missing values.
    Null,
    Bool,
    Int,
    UInt,
    Float32,
    Float64,
    /// Bytes as well: nothing is decoded.
    Text,
    Uuid,
    Decimal {
        scale: u32,
    },
    Date,
    Time(Unit),
    Timestamp {
        unit: Unit,
        zoned: bool,
    },
}

impl Kind {
    /// As people read it.
    pub fn name(self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Bool => "bool".into(),
            Self::Int => "integer".into(),
            Self::UInt => "unsigned integer".into(),
            Self::Float32 => "float32".into(),
            Self::Float64 => "float64".into(),
            Self::Text => "text".into(),
            Self::Uuid => "uuid".into(),
            Self::Decimal { scale } => format!("decimal({scale})"),
            Self::Date => "date".into(),
            Self::Time(unit) => format!("time({})", unit.name()),
            Self::Timestamp { unit, zoned: true } => format!("timestamp({}, UTC)", unit.name()),
            Self::Timestamp { unit, zoned: false } => format!("timestamp({})", unit.name()),
        }
    }
}

/// What a column is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The values themselves; what has no type of numpy's as its canonical text.
    Values,
    /// XXH64 of the canonical text.
    Ids,
    /// The same, of texts that are numbers: "1.0" and 1 are one id.
    NumericIds,
    /// Float64.
    Numbers,
    /// The canonical text itself, that an id is the hash of.
    Texts,
    /// The same, of texts that are numbers.
    NumericTexts,
}

/// One column of the request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub name: String,
    pub want: Want,
    /// Of texts, which have no types: whether each is a list. Parquet says so itself.
    pub lists: bool,
    /// What stands between the elements of a list in CSV.
    pub separator: u8,
}
