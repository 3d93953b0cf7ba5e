//! A decider: where fields and rows of CSV end, by the rules.
//!
//! A quote means something at the beginning of a field alone; there, everything up to the next single quote is the value, two
//! quotes are one. What follows up to the delimiter belongs to the value as it is. So does a quote in the middle of a field.

/// What separates and what quotes.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    pub delimiter: u8,
    pub quote: Option<u8>,
}

/// A field of a row: where its value lies (quotes taken off, in place), and where the next field begins.
pub struct Field {
    pub start: usize,
    pub end: usize,
    pub next: usize,
    pub last: bool,
}

/// One field by the rules, of bytes that end where its row ends. Its value is moved together in place where quotes are taken off.
pub fn field(bytes: &mut [u8], start: usize, marks: Marks) -> Field {
    let quoted = marks.quote.filter(|&quote| bytes.get(start) == Some(&quote));
    let (mut from, mut to) = (start, start);
    if let Some(quote) = quoted {
        from += 1;
        loop {
            let Some(found) = memchr::memchr(quote, &bytes[from..]) else {
                // A quote that is never closed: all that follows.
                bytes.copy_within(from.., to);
                return Field { start, end: to + bytes.len() - from, next: bytes.len(), last: true };
            };
            let is_double = bytes.get(from + found + 1) == Some(&quote);
            let kept = found + usize::from(is_double);
            bytes.copy_within(from..from + kept, to);
            to += kept;
            from += kept + 1;
            if !is_double {
                break;
            }
        }
    }
    let found = memchr::memchr2(marks.delimiter, b'\n', &bytes[from..]);
    let end = found.map_or(bytes.len(), |found| from + found);
    let last = found.is_none() || bytes[end] == b'\n';
    let mut value = end;
    if last && value > from && bytes[value - 1] == b'\r' {
        value -= 1;
    }
    if quoted.is_some() {
        bytes.copy_within(from..value, to);
        value = to + (value - from);
    }
    Field { start, end: value, next: (end + 1).min(bytes.len()), last }
}

/// Where the row that begins at `start` ends: the place behind its newline. None if that is not here.
pub fn row_end(bytes: &[u8], start: usize, marks: Marks) -> Option<usize> {
    let Some(quote) = marks.quote else {
        return memchr::memchr(b'\n', &bytes[start..]).map(|found| start + found + 1);
    };
    let mut at = start;
    loop {
        if bytes.get(at) == Some(&quote) {
            at += 1;
            loop {
                at += memchr::memchr(quote, &bytes[at..])? + 1;
                if *bytes.get(at)? != quote {
                    break;
                }
                at += 1;
            }
        }
        at += memchr::memchr2(marks.delimiter, b'\n', &bytes[at..])? + 1;
        if bytes[at - 1] == b'\n' {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMA: Marks = Marks { delimiter: b',', quote: Some(b'"') };

    fn fields(text: &str) -> Vec<String> {
        let mut bytes = text.as_bytes().to_vec();
        let (mut at, mut found) = (0, Vec::new());
        loop {
            let Field { start, end, next, last } = field(&mut bytes, at, COMMA);
            found.push(String::from_utf8(bytes[start..end].to_vec()).unwrap());
            at = next;
            if last {
                return found;
            }
        }
    }

    #[test]
    fn quotes_are_read_by_the_rules() {
        assert_eq!(fields("a,b\n"), ["a", "b"]);
        assert_eq!(fields("\"a,\"\"b\"\"\nc\",d\r\n"), ["a,\"b\"\nc", "d"]);
        assert_eq!(fields("5\" pipe,\"\"\n"), ["5\" pipe", ""]);
        assert_eq!(fields("\"a\"b,\"open"), ["ab", "open"]);
        assert_eq!(fields(","), ["", ""]);
        assert_eq!(fields("\"x\"\r\n"), ["x"]);
    }

    #[test]
    fn rows_end_outside_of_quotes() {
        for (text, end) in
            [("a,b\nc", Some(4)), ("\"a\nb\",c\nd", Some(8)), ("\"a\n", None), ("a\"\nb", Some(3)), ("a", None)]
        {
            assert_eq!(row_end(text.as_bytes(), 0, COMMA), end, "{text:?}");
        }
        assert_eq!(row_end(b"\"a\nb\"\n", 0, Marks { quote: None, ..COMMA }), Some(3));
    }
}
