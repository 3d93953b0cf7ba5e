//! An adapter: JSON lines, an object per line. A newline stands between rows alone, so a file can be cut anywhere: a part
//! `[start, end)` has the rows whose lines begin in it.

use std::sync::Arc;

use super::asked::{Asked, Kind as ValueKind, Want};
use super::batches::{Batch, Place, without_bad};
use super::canon;
use super::columns::Column;
use super::fault::{Fault, Kind, Result};
use super::filler::{Filler, Raw};
use super::json::{Json, Value, Wrong};
use super::ranges::Ranges;
use super::stream::{Window, lines_before};
use super::texts::TextPart;

const BLOCK: usize = 1 << 20;
const LONGEST_LINE: usize = 64 << 20;
const BAD_TOLD: usize = 4;

struct Wanted {
    name: String,
    texts: Filler,
    /// Of numbers and truths, whose id is that of their canonical text.
    numbers: Filler,
    column: Column,
    lists: bool,
    /// Whether the row has it already.
    seen: bool,
}

pub struct LineRows {
    name: String,
    from: Arc<dyn Ranges>,
    start: u64,
    end: Option<u64>,
    window: Window,
    at: usize,
    wanted: Vec<Wanted>,
    rows: u64,
    lines: u64,
    pass_bad: bool,
    scratch: Vec<u8>,
}

impl LineRows {
    pub fn open(part: &TextPart<'_>) -> Result<Self> {
        let TextPart { name, ref from, start, end, first, asked, ref missing, pass_bad } = *part;
        // The byte before says whether a line begins right here.
        let window = Window::open(from, start.saturating_sub(1)).map_err(|fault| fault.in_file(name))?;
        let one = |asked: &Asked| {
            let texts = Filler::new(ValueKind::Text, asked.want, missing.clone());
            let want = match asked.want {
                Want::Ids => Want::NumericIds,
                Want::Texts => Want::NumericTexts,
                want => want,
            };
            let numbers = Filler::new(ValueKind::Text, want, Arc::new(Vec::new()));
            let column = texts.column(asked.lists);
            Wanted { name: asked.name.clone(), texts, numbers, column, lists: asked.lists, seen: false }
        };
        let mut rows = Self {
            name: name.into(),
            from: from.clone(),
            start,
            end,
            window,
            at: 0,
            wanted: asked.iter().map(one).collect(),
            rows: 0,
            lines: 0,
            pass_bad,
            scratch: Vec::new(),
        };
        let pass = |rows: &mut Self| {
            if start > 0 {
                rows.line()?;
                rows.lines = 0;
            }
            while rows.rows < first && rows.row_line()?.is_some() {
                rows.rows += 1;
            }
            Ok(())
        };
        pass(&mut rows).map_err(|fault: Fault| fault.in_file(name))?;
        Ok(rows)
    }

    /// Where the line that comes next lies; None at the end.
    fn line(&mut self) -> Result<Option<(usize, usize)>> {
        let mut searched = self.at;
        loop {
            let bytes = &self.window.bytes;
            if let Some(found) = memchr::memchr(b'\n', &bytes[searched..]) {
                let end = searched + found;
                self.lines += 1;
                return Ok(Some((std::mem::replace(&mut self.at, end + 1), end)));
            }
            searched = bytes.len();
            if self.window.at_end {
                if self.at == bytes.len() {
                    return Ok(None);
                }
                self.lines += 1;
                return Ok(Some((std::mem::replace(&mut self.at, searched), searched)));
            }
            if bytes.len() - self.at > LONGEST_LINE {
                return Err(Fault::damaged(format!("a line of more than {} MiB", LONGEST_LINE >> 20)));
            }
            self.window.more(self.at, BLOCK)?;
            searched -= self.at;
            self.at = 0;
        }
    }

    /// The next line that is not blank and begins in the part.
    fn row_line(&mut self) -> Result<Option<(usize, usize)>> {
        loop {
            if self.end.is_some_and(|end| self.window.place + self.at as u64 >= end) {
                return Ok(None);
            }
            let Some((start, end)) = self.line()? else { return Ok(None) };
            if !self.window.bytes[start..end].trim_ascii().is_empty() {
                return Ok(Some((start, end)));
            }
        }
    }

    pub fn next_batch(&mut self, most: usize) -> Result<Option<Batch>> {
        let (mut lines, mut broken) = (Vec::new(), Vec::new());
        let mut read = 0;
        while read < most {
            let line = self.row_line().map_err(|fault| fault.in_file(&self.name))?;
            let Some((start, end)) = line else { break };
            read += 1;
            let rows = lines.len();
            match self.row(start, end) {
                Ok(()) => {
                    self.close_row();
                    lines.push(self.lines);
                }
                Err((wrong, column)) => {
                    self.wanted.iter_mut().for_each(|wanted| wanted.back_to(rows));
                    let text = format!("{} (byte {})", wrong.why, wrong.at - start.min(wrong.at) + 1);
                    let mut fault = Fault::new(Kind::Value, text).in_file(&self.name);
                    fault.line = Some(self.lines);
                    fault.column = column.map(|column| self.wanted[column].name.clone());
                    broken.push(fault);
                    if !self.pass_bad {
                        break;
                    }
                }
            }
            for wanted in &self.wanted {
                wanted.column.check_text().map_err(|why| Fault::unsupported(why).in_file(&self.name))?;
            }
        }
        if read == 0 {
            return Ok(None);
        }
        let first = self.rows;
        self.rows += read as u64;
        let mut columns = Vec::with_capacity(self.wanted.len());
        for wanted in &mut self.wanted {
            columns.push(std::mem::replace(&mut wanted.column, wanted.texts.column(wanted.lists)));
        }
        let names: Vec<&str> = self.wanted.iter().map(|wanted| wanted.name.as_str()).collect();
        let place = Place { file: &self.name, group: None, lines: &lines };
        let clean = without_bad(place, first, read, &names, columns, self.pass_bad);
        let mut batch = clean.map_err(|fault| self.with_lines_before(fault))?;
        if let Some(fault) = broken.first().filter(|_| !self.pass_bad) {
            return Err(self.with_lines_before(fault.clone()));
        }
        batch.bad += broken.len();
        batch.told.extend(broken);
        batch.told.sort_by_key(|fault| fault.line);
        batch.told.truncate(BAD_TOLD);
        if self.start > 0 {
            batch.told = batch.told.into_iter().map(|fault| self.with_lines_before(fault)).collect();
        }
        Ok(Some(batch))
    }

    fn with_lines_before(&self, mut fault: Fault) -> Fault {
        if self.start > 0
            && let Some(line) = &mut fault.line
        {
            // A line that the part before has the beginning of is counted there.
            match lines_before(&self.from, self.start - 1) {
                Ok(before) => *line += before + 1,
                Err(_) => fault.line = None,
            }
        }
        fault
    }

    /// Columns that the row does not have are missing in it.
    fn close_row(&mut self) {
        for wanted in &mut self.wanted {
            if !wanted.seen {
                match &mut wanted.column.lists {
                    Some(lists) => lists.push(wanted.column.state.len(), true),
                    None => wanted.column.pad(1),
                }
            }
            wanted.seen = false;
        }
    }

    /// One row; what is wrong with it comes with the column.
    fn row(&mut self, start: usize, end: usize) -> std::result::Result<(), (Wrong, Option<usize>)> {
        let mut json = Json { bytes: &mut self.window.bytes[..end], at: start };
        let whole = |wrong| (wrong, None);
        if json.value().map_err(whole)? != Value::Object {
            return Err(whole(Wrong { at: start, why: "an object is expected" }));
        }
        let mut first = true;
        let mut guess = 0;
        loop {
            match json.next() {
                b'}' => break,
                b',' if !first => json.at += 1,
                _ if first => {}
                _ => return json.wrong("a comma is expected").map_err(whole),
            }
            first = false;
            let (from, to) = json.key().map_err(whole)?;
            let key = &json.bytes[from..to];
            // Most objects have their names in one order.
            let place = if self.wanted.get(guess).is_some_and(|wanted| wanted.name.as_bytes() == key) {
                Some(guess)
            } else {
                self.wanted.iter().position(|wanted| wanted.name.as_bytes() == key)
            };
            let value = json.value().map_err(whole)?;
            let Some(place) = place else {
                if matches!(value, Value::Array | Value::Object) {
                    json.skip(value).map_err(whole)?;
                }
                continue;
            };
            guess = place + 1;
            let wanted = &mut self.wanted[place];
            if std::mem::replace(&mut wanted.seen, true) {
                return Err((Wrong { at: from, why: "a name that comes twice" }, Some(place)));
            }
            wanted.take(&mut json, value, &mut self.scratch).map_err(|wrong| (wrong, Some(place)))?;
        }
        json.at += 1;
        if json.next() != 0 || json.at < end {
            return json.wrong("nothing more is expected").map_err(whole);
        }
        Ok(())
    }
}

impl Wanted {
    fn take(&mut self, json: &mut Json<'_>, value: Value, scratch: &mut Vec<u8>) -> std::result::Result<(), Wrong> {
        if !self.lists {
            return self.one(json, value, scratch);
        }
        if value != Value::Array {
            if value != Value::Null {
                return json.wrong("a list is expected");
            }
            if let Some(lists) = &mut self.column.lists {
                lists.push(self.column.state.len(), true);
            }
            return Ok(());
        }
        let mut first = true;
        while json.next() != b']' {
            if !first {
                if json.next() != b',' {
                    return json.wrong("a comma is expected");
                }
                json.at += 1;
            }
            first = false;
            let value = json.value()?;
            self.one(json, value, scratch)?;
        }
        json.at += 1;
        if let Some(lists) = &mut self.column.lists {
            lists.push(self.column.state.len(), false);
        }
        Ok(())
    }

    fn one(&mut self, json: &mut Json<'_>, value: Value, scratch: &mut Vec<u8>) -> std::result::Result<(), Wrong> {
        let (filler, span) = match value {
            Value::Null => {
                self.column.pad(1);
                return Ok(());
            }
            Value::Text(start, end) => (&mut self.texts, (start as u32, end as u32)),
            Value::Number(start, end) => (&mut self.numbers, (start as u32, end as u32)),
            Value::True | Value::False => {
                let word: &[u8] = if value == Value::True { b"true" } else { b"false" };
                self.numbers.fill(Raw::Bytes(word, &[(0, word.len() as u32)]), &mut self.column);
                return Ok(());
            }
            Value::Array => return json.wrong("one value is expected, not a list"),
            Value::Object => return json.wrong("one value is expected, not an object"),
        };
        let bytes = &json.bytes[span.0 as usize..span.1 as usize];
        if let (Value::Number(..), Want::Values) = (value, filler.want) {
            scratch.clear();
            canon::number_text(bytes, scratch);
            filler.fill(Raw::Bytes(scratch, &[(0, scratch.len() as u32)]), &mut self.column);
        } else {
            filler.fill(Raw::Bytes(bytes, &[(0, bytes.len() as u32)]), &mut self.column);
        }
        Ok(())
    }

    /// Forgets what a row has left that was not read to its end.
    fn back_to(&mut self, rows: usize) {
        self.seen = false;
        self.column.truncate(rows);
    }
}
