//! Lines that are read together against lines that are read alone, and against the standard library.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::reader::schema::DenseSlot;
use crate::reader::source::{From, Input, Place, Source};

const SPARSE: [&str; 4] = ["click", "1", "12", "id_of_9_b"];

fn schema(unknown: Unknown) -> Schema {
    let dense = |name: &str, dim| DenseSlot { name: name.into(), dim };
    Schema {
        sparse: SPARSE.iter().map(|name| name.to_string()).collect(),
        dense: vec![dense("d", 3), dense("dense_feature", 1)],
        padding: None,
        dense_padding: Some(0.0),
        unknown,
    }
}

fn block(text: String) -> Block {
    let bytes = Arc::new(text.into_bytes());
    let room = bytes.len().max(16) + 1;
    let inputs = Arc::new(vec![Input { name: "text".into(), from: From::Bytes(bytes) }]);
    let mut source = Source::new(inputs, Place::default(), room, Arc::new(AtomicBool::new(false)), None);
    source.next(Vec::new()).expect("bytes can be read").expect("a block")
}

type Read = (Columns, Vec<u32>, Vec<Bad>, Counts);

/// What a parser makes of a block, so many samples at a time.
fn read(schema: &Schema, block: &Block, want: usize, together: bool) -> Read {
    let mut parser = Parser::new(schema, &schema.check().expect("a good schema"));
    if !together {
        parser.together = None;
    }
    let (mut columns, mut starts, mut bad) = (Columns::new(schema, want), Vec::new(), Vec::new());
    let mut cursor = Cursor::default();
    while cursor.at < block.text().len() {
        parser.parse(block, &mut cursor, want, &mut columns, Some(&mut starts), &mut bad);
    }
    (columns, starts, bad, parser.take_counts())
}

fn id(draw: u64) -> String {
    match draw % 50 {
        0 => format!("-{}", draw >> (1 + (draw >> 8) % 60)),
        1 => u64::MAX.to_string(),
        2 => format!("{:022}", draw >> 50),
        _ => (draw >> ((draw >> 8) % 64)).to_string(),
    }
}

fn float(draw: u64) -> String {
    let value = (draw >> 11) as f64 / (1u64 << 53) as f64;
    let digits = (draw >> 3) as usize % 16;
    match draw % 8 {
        0 => "0.0".into(),
        1 => format!("{}", draw >> (40 + digits)),
        2 => format!("{:.digits$}", value * 10f64.powi((draw >> 40) as i32 % 9)),
        3 => format!("-{value:.digits$}"),
        4 => format!("{}", f32::from_bits(draw as u32 & 0x4fff_ffff)),
        5 => {
            // The middle between two float32.
            let low = f32::from_bits(0x3f00_0000 + (draw >> 32) as u32 % (20 << 23));
            let middle = (f64::from(low) + f64::from(f32::from_bits(low.to_bits() + 1))) / 2.0;
            format!("{middle}")
        }
        6 => format!("{}.", draw % 100),
        _ => format!("{value:.digits$}"),
    }
}

fn line(draws: &mut impl Iterator<Item = u64>) -> String {
    let mut draw = || draws.next().unwrap_or_default();
    let mut text = format!("click:{} other:x", draw() % 2);
    (0..3).for_each(|_| text += &format!(" d:{}", float(draw())));
    text += &format!(" dense_feature:{} other:{}", float(draw()), draw());
    SPARSE[1..].iter().for_each(|name| text += &format!(" {name}:{}", id(draw())));
    text
}

#[test]
fn lines_read_together_are_as_those_read_alone() {
    let mut draws = (0u64..).map(crate::keys::mix);
    for (round, end) in ["", " ", "\r", "\t", ""].into_iter().cycle().take(20).enumerate() {
        let mut text = String::new();
        for _ in 0..300 {
            let mut line = line(&mut draws);
            // In most rounds some lines are not as the others.
            match draws.next().unwrap_or_default() % (20 + 500 * (round as u64 % 3)) {
                0 => line = line.replacen(' ', "  ", 1),
                1 => line = line.replacen(" d:", " 1:", 1),
                2 => line += " 1:5",
                3 => line += "x",
                4 => line = line.replacen("click", "klick", 1),
                5 => line = line.replacen(" d:", "\nd:", 1),
                6 => line = line.replacen(" d:", " d:.", 1),
                7 => line.clear(),
                8 => line = line.replacen(" 12:", " 12:99999999999999999999", 1),
                9 => line = line.replacen(" 12:", " 12:\r", 1),
                _ => {}
            }
            text += &line;
            text += end;
            text.push('\n');
        }
        let block = block(text);
        for unknown in [Unknown::Count, Unknown::Skip] {
            let schema = schema(unknown);
            let alone = read(&schema, &block, usize::MAX, false);
            for want in [1, 5, 8, 100, usize::MAX] {
                let together = read(&schema, &block, want, true);
                assert_eq!(together.0, alone.0);
                assert_eq!(together.1, alone.1);
                let bad =
                    |read: &Read| -> Vec<Bad> { read.2.iter().map(|bad| Bad { before: 0, ..bad.clone() }).collect() };
                assert_eq!(bad(&together), bad(&alone));
                assert_eq!(together.3, alone.3);
            }
        }
    }
}

#[test]
fn numbers_read_together_are_those_of_the_standard_library() {
    let schema = Schema {
        sparse: vec!["s".into()],
        dense: vec![DenseSlot { name: "d".into(), dim: 1 }],
        ..schema(Unknown::Refuse)
    };
    let draws = || (1u64 << 32..).map(crate::keys::mix).take(200_000);
    let text: Vec<String> = draws().map(|draw| format!("s:{} d:{}\n", draw >> (draw % 64), float(draw))).collect();
    let (columns, _, bad, _) = read(&schema, &block(text.concat()), usize::MAX, true);
    assert_eq!(bad, []);
    assert_eq!(columns.size, text.len());
    for (at, draw) in draws().enumerate() {
        assert_eq!(columns.sparse[0].values[at], draw >> (draw % 64), "{}", text[at]);
        let expected: f32 = float(draw).parse().expect("a number for the standard library");
        assert_eq!(columns.dense[0].values[at].to_bits(), expected.to_bits(), "{}", text[at]);
    }
}
