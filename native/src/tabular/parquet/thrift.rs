//! A decider: Thrift's compact protocol, as much of it as Parquet uses. What is not asked for is passed over.

use crate::tabular::fault::{Fault, Result};

/// Structures lie no deeper in one another than this.
const DEEPEST: u32 = 24;

pub struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    True,
    False,
    Byte,
    Integer,
    Double,
    Binary,
    List,
    Map,
    Struct,
    Uuid,
}

impl Type {
    fn of(code: u8) -> Result<Self> {
        Ok(match code {
            1 => Self::True,
            2 => Self::False,
            3 => Self::Byte,
            4..=6 => Self::Integer,
            7 => Self::Double,
            8 => Self::Binary,
            9 | 10 => Self::List,
            11 => Self::Map,
            12 => Self::Struct,
            13 => Self::Uuid,
            _ => return Err(wrong()),
        })
    }
}

fn wrong() -> Fault {
    Fault::damaged("its metadata is damaged")
}

impl<'a> Compact<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes were read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Whether reading has come to the end of the bytes: then an error may only mean that there are too few.
    pub fn at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.at).ok_or_else(wrong)?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(wrong())
    }

    pub fn integer(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub fn small(&mut self) -> Result<i32> {
        i32::try_from(self.integer()?).map_err(|_| wrong())
    }

    pub fn binary(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.varint()?).map_err(|_| wrong())?;
        let end = self.at.checked_add(length).ok_or_else(wrong)?;
        let Some(bytes) = self.bytes.get(self.at..end) else {
            self.at = self.bytes.len();
            return Err(wrong());
        };
        self.at = end;
        Ok(bytes)
    }

    /// Reads a structure: `field` gets each field's number and type, and says whether it has read the value.
    pub fn structure(&mut self, mut field: impl FnMut(&mut Self, i16, Type) -> Result<bool>) -> Result<()> {
        self.fields(&mut field, 0)
    }

    fn fields(&mut self, field: &mut dyn FnMut(&mut Self, i16, Type) -> Result<bool>, depth: u32) -> Result<()> {
        let mut id: i16 = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            id = match head >> 4 {
                0 => i16::try_from(self.integer()?).map_err(|_| wrong())?,
                more => id.checked_add(i16::from(more)).ok_or_else(wrong)?,
            };
            let kind = Type::of(head & 0x0f)?;
            if !field(self, id, kind)? {
                self.skip(kind, depth)?;
            }
        }
    }

    /// How many elements a list has, and their type. Each takes a byte at least.
    pub fn list(&mut self) -> Result<(usize, Type)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => usize::try_from(self.varint()?).map_err(|_| wrong())?,
            few => usize::from(few),
        };
        if count > self.bytes.len() - self.at {
            self.at = self.bytes.len();
            return Err(wrong());
        }
        Ok((count, Type::of(head & 0x0f)?))
    }

    fn skip(&mut self, kind: Type, depth: u32) -> Result<()> {
        if depth > DEEPEST {
            return Err(wrong());
        }
        match kind {
            Type::True | Type::False => {}
            Type::Byte => drop(self.byte()?),
            Type::Integer => drop(self.varint()?),
            Type::Double => self.pass(8)?,
            Type::Uuid => self.pass(16)?,
            Type::Binary => drop(self.binary()?),
            Type::List => {
                let (count, kind) = self.list()?;
                for _ in 0..count {
                    self.skip_element(kind, depth + 1)?;
                }
            }
            Type::Map => {
                let count = self.varint()?;
                if count > 0 {
                    let kinds = self.byte()?;
                    for _ in 0..count {
                        self.skip_element(Type::of(kinds >> 4)?, depth + 1)?;
                        self.skip_element(Type::of(kinds & 0x0f)?, depth + 1)?;
                    }
                }
            }
            Type::Struct => self.fields(&mut |_, _, _| Ok(false), depth + 1)?,
        }
        Ok(())
    }

    /// In a list, a truth takes a byte.
    fn skip_element(&mut self, kind: Type, depth: u32) -> Result<()> {
        match kind {
            Type::True | Type::False => self.pass(1),
            other => self.skip(other, depth),
        }
    }

    fn pass(&mut self, count: usize) -> Result<()> {
        if self.bytes.len() - self.at < count {
            self.at = self.bytes.len();
            return Err(wrong());
        }
        self.at += count;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_deep_or_too_short_is_damaged() {
        // A structure in a structure in a structure ...
        let deep = vec![0x1c; 10_000];
        assert!(Compact::new(&deep).structure(|_, _, _| Ok(false)).is_err());
        assert!(Compact::new(&[0x19, 0xfc, 0xff, 0xff, 0x7f]).structure(|_, _, _| Ok(false)).is_err());
        assert!(Compact::new(&[0x18, 5, b'a']).structure(|_, _, _| Ok(false)).is_err());
        assert!(Compact::new(&[]).structure(|_, _, _| Ok(false)).is_err());
    }

    #[test]
    fn fields_are_numbered_by_their_differences() {
        let bytes = [0x15, 2, 0x25, 3, 0x18, 1, b'x', 0x11, 0];
        let mut seen = Vec::new();
        let mut compact = Compact::new(&bytes);
        let read = compact.structure(|compact, id, kind| {
            if kind == Type::Integer {
                seen.push((id, compact.integer()?));
                return Ok(true);
            }
            seen.push((id, -1000));
            Ok(false)
        });
        assert_eq!(read, Ok(()));
        assert_eq!(seen, [(1, 1), (3, -2), (4, -1000), (5, -1000)]);
        assert_eq!(compact.at(), bytes.len());
    }
}
