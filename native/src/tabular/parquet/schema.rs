//! A decider: the tree of a schema as columns. A list is one column with the list's name, a field of a structure is called
//! `outer.inner`, a map has the columns `map.key` and `map.value`.

use super::footer::{Element, Logical};
use crate::tabular::asked::Kind;
use crate::tabular::canon::Unit;
use crate::tabular::fault::{Fault, Result};

const DEEPEST: usize = 32;

/// How values lie in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Physical {
    Boolean,
    Int32,
    Int64,
    Int96,
    Float,
    Double,
    ByteArray,
    /// Of so many bytes each.
    Fixed(usize),
}

/// A column: a leaf of the tree.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub name: String,
    pub physical: Physical,
    pub kind: Kind,
    /// Two bytes each, to be read as float16.
    pub half: bool,
    /// 32 bits without a sign.
    pub unsigned32: bool,
    /// Definition and repetition levels go up to these.
    pub most_defined: u32,
    pub most_repeated: u32,
    /// From this definition level on, a list has an element.
    pub list_defined: u32,
    /// Why it can't be read.
    pub refused: Option<&'static str>,
}

pub fn leaves(elements: &[Element]) -> Result<Vec<Leaf>> {
    let root = elements.first().ok_or_else(|| Fault::damaged("a file without a schema"))?;
    let mut walk = Walk { elements, at: 1, leaves: Vec::new() };
    for _ in 0..root.children {
        walk.node(&Above::default(), true, 0)?;
    }
    if walk.at != elements.len() {
        return Err(Fault::damaged("its schema is not a tree"));
    }
    Ok(walk.leaves)
}

struct Walk<'a> {
    elements: &'a [Element],
    at: usize,
    leaves: Vec<Leaf>,
}

#[derive(Clone, Default)]
struct Above {
    path: Vec<String>,
    defined: u32,
    repeated: u32,
    list_defined: u32,
}

/// What the number of a converted or a logical type says about a group.
fn is_list(element: &Element) -> bool {
    element.converted == Some(3) || element.logical.is_some_and(|logical| logical.number == 3)
}

fn is_map(element: &Element) -> bool {
    matches!(element.converted, Some(1 | 2)) || element.logical.is_some_and(|logical| logical.number == 2)
}

impl Walk<'_> {
    /// One node and all below it. Without `named` its name is left out of the columns'.
    fn node(&mut self, above: &Above, named: bool, depth: usize) -> Result<()> {
        let elements = self.elements;
        let element = elements.get(self.at).ok_or_else(|| Fault::damaged("its schema is cut off"))?;
        self.at += 1;
        if depth > DEEPEST {
            return Err(Fault::damaged("its schema is too deep"));
        }
        let mut here = above.clone();
        here.enter(element);
        if named {
            here.path.push(element.name.clone());
        }
        if let Some(physical) = element.physical {
            self.leaves.push(leaf(element, physical, &here)?);
            return Ok(());
        }
        let child = elements.get(self.at);
        let repeated = element.children == 1 && child.is_some_and(|child| child.repetition == 2);
        match child {
            Some(child) if repeated && is_list(element) => self.list(&here, child, depth),
            Some(child) if repeated && is_map(element) => {
                self.at += 1;
                here.enter(child);
                self.children(child.children, &here, true, depth)
            }
            _ => self.children(element.children, &here, true, depth),
        }
    }

    /// The elements of a list, in three levels, or in two as older writers have it.
    fn list(&mut self, above: &Above, child: &Element, depth: usize) -> Result<()> {
        let list = above.path.last().cloned().unwrap_or_default();
        let is_element = child.children != 1 || child.name == "array" || child.name == format!("{list}_tuple");
        if child.physical.is_some() || is_element {
            return self.node(above, false, depth + 1);
        }
        self.at += 1;
        let mut here = above.clone();
        here.enter(child);
        self.node(&here, false, depth + 2)
    }

    fn children(&mut self, count: usize, above: &Above, named: bool, depth: usize) -> Result<()> {
        if count > self.elements.len() {
            return Err(Fault::damaged("its schema is cut off"));
        }
        (0..count).try_for_each(|_| self.node(above, named, depth + 1))
    }
}

impl Above {
    fn enter(&mut self, element: &Element) {
        self.defined += u32::from(element.repetition != 0);
        if element.repetition == 2 {
            self.repeated += 1;
            self.list_defined = self.defined;
        }
    }
}

fn leaf(element: &Element, physical: i32, above: &Above) -> Result<Leaf> {
    let length = usize::try_from(element.length).unwrap_or(0);
    let physical = match physical {
        0 => Physical::Boolean,
        1 => Physical::Int32,
        2 => Physical::Int64,
        3 => Physical::Int96,
        4 => Physical::Float,
        5 => Physical::Double,
        6 => Physical::ByteArray,
        7 if length > 0 && length <= 1 << 20 => Physical::Fixed(length),
        _ => return Err(Fault::damaged(format!("column {:?} has no known type", element.name))),
    };
    let logical = element.logical.unwrap_or_default();
    let kind = kind(element, physical, logical);
    Ok(Leaf {
        name: above.path.join("."),
        physical,
        kind,
        half: logical.number == 15 && physical == Physical::Fixed(2),
        unsigned32: kind == Kind::UInt && physical == Physical::Int32,
        most_defined: above.defined,
        most_repeated: above.repeated,
        list_defined: above.list_defined,
        refused: (above.repeated > 1).then_some("lists of lists are not read"),
    })
}

fn kind(element: &Element, physical: Physical, logical: Logical) -> Kind {
    let scale = if logical.number == 5 { logical.scale } else { element.scale };
    let decimal = Kind::Decimal { scale: u32::try_from(scale).unwrap_or(0).min(100) };
    let unit = match logical.unit {
        1 => Unit::Millis,
        2 => Unit::Micros,
        _ => Unit::Nanos,
    };
    let number = (logical.number, element.converted);
    match physical {
        Physical::Boolean => Kind::Bool,
        Physical::Float => Kind::Float32,
        Physical::Double => Kind::Float64,
        Physical::Int96 => Kind::Timestamp { unit: Unit::Nanos, zoned: false },
        Physical::ByteArray | Physical::Fixed(_) => match number {
            (5, _) | (0, Some(5)) => decimal,
            (11, _) => Kind::Null,
            (14, _) if physical == Physical::Fixed(16) => Kind::Uuid,
            (15, _) if physical == Physical::Fixed(2) => Kind::Float32,
            _ => Kind::Text,
        },
        Physical::Int32 | Physical::Int64 => match number {
            (5, _) | (0, Some(5)) => decimal,
            (6, _) | (0, Some(6)) => Kind::Date,
            (7, _) => Kind::Time(unit),
            (0, Some(7)) => Kind::Time(Unit::Millis),
            (0, Some(8)) => Kind::Time(Unit::Micros),
            (8, _) => Kind::Timestamp { unit, zoned: logical.zoned },
            (0, Some(9)) => Kind::Timestamp { unit: Unit::Millis, zoned: true },
            (0, Some(10)) => Kind::Timestamp { unit: Unit::Micros, zoned: true },
            (10, _) if !logical.signed => Kind::UInt,
            (0, Some(11..=14)) => Kind::UInt,
            (11, _) => Kind::Null,
            _ => Kind::Int,
        },
    }
}
