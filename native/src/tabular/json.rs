//! A decider: one value of JSON. Texts are unescaped in place. What is read is checked by the grammar of RFC 8259.

/// Arrays and objects lie no deeper in one another than this.
const DEEPEST: usize = 128;

/// Why bytes are no JSON, and where.
#[derive(Debug, PartialEq)]
pub struct Wrong {
    pub at: usize,
    pub why: &'static str,
}

type Result<T> = std::result::Result<T, Wrong>;

/// A value, with the place of what it is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Null,
    True,
    False,
    Number(usize, usize),
    Text(usize, usize),
    /// Their first byte; what follows is not read yet.
    Array,
    Object,
}

pub struct Json<'a> {
    pub bytes: &'a mut [u8],
    pub at: usize,
}

impl Json<'_> {
    pub fn wrong<T>(&self, why: &'static str) -> Result<T> {
        Err(Wrong { at: self.at, why })
    }

    /// Over blanks, to the next byte; 0 at the end.
    pub fn next(&mut self) -> u8 {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return byte;
            }
            self.at += 1;
        }
        0
    }

    /// The value that comes next; of an array or an object its bracket.
    pub fn value(&mut self) -> Result<Value> {
        match self.next() {
            b'"' => self.text().map(|(start, end)| Value::Text(start, end)),
            b'{' => self.one(Value::Object),
            b'[' => self.one(Value::Array),
            b't' => self.word(b"true", Value::True),
            b'f' => self.word(b"false", Value::False),
            b'n' => self.word(b"null", Value::Null),
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.wrong("a value is expected"),
        }
    }

    fn one(&mut self, value: Value) -> Result<Value> {
        self.at += 1;
        Ok(value)
    }

    fn word(&mut self, word: &[u8], value: Value) -> Result<Value> {
        if !self.bytes[self.at..].starts_with(word) {
            return self.wrong("a value is expected");
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Value> {
        let start = self.at;
        self.at += usize::from(self.bytes[start] == b'-');
        let whole = self.digits();
        if whole == 0 || whole > 1 && self.bytes[self.at - whole] == b'0' {
            return self.wrong("a number is damaged");
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return self.wrong("a number is damaged");
            }
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            if self.digits() == 0 {
                return self.wrong("a number is damaged");
            }
        }
        Ok(Value::Number(start, self.at))
    }

    fn digits(&mut self) -> usize {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    /// A text behind its quote, unescaped.
    fn text(&mut self) -> Result<(usize, usize)> {
        self.at += 1;
        let start = self.at;
        let mut to = start;
        loop {
            let Some(found) = memchr::memchr2(b'"', b'\\', &self.bytes[self.at..]) else {
                return self.wrong("a text is not closed");
            };
            let stop = self.at + found;
            if self.bytes[self.at..stop].iter().any(|&byte| byte < 0x20) {
                return self.wrong("a control character in a text");
            }
            if to != self.at {
                self.bytes.copy_within(self.at..stop, to);
            }
            to += found;
            let is_end = self.bytes[stop] == b'"';
            self.at = stop + 1;
            if is_end {
                return Ok((start, to));
            }
            to = self.escape(to)?;
        }
    }

    fn escape(&mut self, to: usize) -> Result<usize> {
        let Some(&letter) = self.bytes.get(self.at) else { return self.wrong("a text is not closed") };
        self.at += 1;
        let byte = match letter {
            b'"' | b'\\' | b'/' => letter,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut code = self.hex()?;
                if (0xd800..0xdc00).contains(&code) && self.bytes[self.at..].starts_with(b"\\u") {
                    self.at += 2;
                    let low = self.hex()?;
                    if (0xdc00..0xe000).contains(&low) {
                        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                    }
                }
                let Some(letter) = char::from_u32(code) else { return self.wrong("half of a surrogate pair") };
                // Six bytes and more were read for up to four.
                let length = letter.encode_utf8(&mut self.bytes[to..]).len();
                return Ok(to + length);
            }
            _ => return self.wrong("an escape that is not known"),
        };
        self.bytes[to] = byte;
        Ok(to + 1)
    }

    fn hex(&mut self) -> Result<u32> {
        let digits = self.bytes.get(self.at..self.at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let code =
            digits.filter(|digits| !digits.starts_with('+')).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let Some(code) = code else { return self.wrong("an escape that is damaged") };
        self.at += 4;
        Ok(code)
    }

    /// Passes over the rest of an array or object whose bracket was read.
    pub fn skip(&mut self, opened: Value) -> Result<()> {
        let mut open = vec![opened];
        let mut first = true;
        while let Some(&inner) = open.last() {
            let close = if inner == Value::Object { b'}' } else { b']' };
            let next = self.next();
            if next == close {
                self.at += 1;
                open.pop();
                first = false;
                continue;
            }
            if !first {
                if next != b',' {
                    return self.wrong("a comma is expected");
                }
                self.at += 1;
                self.next();
            }
            if inner == Value::Object {
                self.key()?;
            }
            let value = self.value()?;
            first = matches!(value, Value::Array | Value::Object);
            if first {
                if open.len() == DEEPEST {
                    return self.wrong("it is too deep");
                }
                open.push(value);
            }
        }
        Ok(())
    }

    /// A key and its colon.
    pub fn key(&mut self) -> Result<(usize, usize)> {
        if self.next() != b'"' {
            return self.wrong("a name in quotes is expected");
        }
        let key = self.text()?;
        if self.next() != b':' {
            return self.wrong("a colon is expected");
        }
        self.at += 1;
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Result<Value> {
        let mut bytes = text.as_bytes().to_vec();
        let mut json = Json { bytes: &mut bytes, at: 0 };
        let value = json.value()?;
        if matches!(value, Value::Array | Value::Object) {
            json.skip(value)?;
        }
        if json.next() == 0 { Ok(value) } else { json.wrong("more") }
    }

    #[test]
    fn the_grammar_is_kept() {
        for text in ["{}", "[]", "[1,[2,{}],\"\"]", "{\"a\":{\"b\":[null,true,false,-0.5e+7]}}", " 0 "] {
            assert!(whole(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "{",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{\"a\"}",
            "{a:1}",
            "{\"a\":1,}",
            "01",
            "1.",
            "-",
            "1e",
            "nul",
            "'a'",
            "[}",
            "NaN",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\\u12\"",
            "\"a",
            "\"\n\"",
            "+1",
        ] {
            assert!(whole(text).is_err(), "{text}");
        }
        assert!(whole(&"[".repeat(1000)).is_err());
    }

    #[test]
    fn texts_are_unescaped() {
        let text = r#""a\"\\\/\n\u00e9\ud83d\ude00\u0000z""#;
        let mut bytes = text.as_bytes().to_vec();
        let value = Json { bytes: &mut bytes, at: 0 }.value();
        let Ok(Value::Text(start, end)) = value else { panic!("{value:?}") };
        assert_eq!(&bytes[start..end], "a\"\\/\né😀\0z".as_bytes());
    }
}
