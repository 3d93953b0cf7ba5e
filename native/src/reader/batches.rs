//! The reader: a stream of samples, shuffled or not, cut into batches; with a position that can be saved, and statistics.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::cachefeed::CacheFeed;
use super::columns::Columns;
use super::fault::Fault;
use super::schema::{DenseSlot, Id, Schema, Unknown};
use super::shuffle::permutation;
use super::source::{Idle, Input, Mark, Place};
use super::tally::Tally;
use super::text::{TextFeed, TextSettings};

/// Samples that a window gets at once; in between, somebody may stop the reader.
const FILL: usize = 1 << 16;
const MOST_THREADS: usize = 256;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub sparse: Vec<String>,
    pub dense: Vec<DenseSlot>,
    pub padding: Option<Id>,
    pub dense_padding: Option<f32>,
    pub unknown: Unknown,
    pub batch_size: usize,
    pub drop_last: bool,
    pub threads: usize,
    pub ordered: bool,
    pub bad_lines: u64,
    pub shuffle: Option<ShuffleSettings>,
    pub cache: Option<CacheSettings>,
    /// For tests.
    pub block_bytes: Option<usize>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShuffleSettings {
    /// Samples of a window.
    pub buffer: usize,
    pub seed: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSettings {
    /// Beside each file if it is `None`.
    pub directory: Option<PathBuf>,
}

/// Where a reader goes on: behind the samples of its last batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    version: u32,
    /// What it is a position of: inputs, slots and shuffle.
    of: String,
    input: usize,
    /// A byte of the uncompressed text, or a sample of a cache.
    offset: u64,
    lines: u64,
    bad: u64,
    samples: u64,
    /// The number of the window that begins there, and how many samples of it were given out.
    window: u64,
    given: usize,
}

enum Feed {
    Text(Box<TextFeed>),
    Cache(Box<CacheFeed>),
}

impl Feed {
    fn pull(&mut self, want: usize, out: &mut Columns) -> Result<usize, Fault> {
        match self {
            Self::Text(feed) => feed.pull(want, out),
            Self::Cache(feed) => feed.pull(want, out),
        }
    }

    fn mark(&self) -> Mark {
        match self {
            Self::Text(feed) => feed.mark(),
            Self::Cache(feed) => feed.mark(),
        }
    }

    fn tally(&self) -> &Tally {
        match self {
            Self::Text(feed) => &feed.tally,
            Self::Cache(feed) => &feed.tally,
        }
    }
}

struct Window {
    settings: ShuffleSettings,
    /// As they were read; kept for its memory.
    read: Columns,
    /// As they are given out. The whole window is permuted at once, so that memory is gone through column by column.
    permuted: Columns,
    given: usize,
    number: u64,
    start: Mark,
}

pub struct Reader {
    schema: Arc<Schema>,
    settings: Settings,
    of: String,
    feed: Feed,
    window: Option<Window>,
    samples: u64,
    idle: Option<Idle>,
    over: bool,
}

impl Reader {
    pub fn new(
        inputs: Vec<Input>,
        settings: Settings,
        position: Option<&str>,
        idle: Option<Idle>,
    ) -> Result<Self, Fault> {
        let schema = Arc::new(Schema {
            sparse: settings.sparse.clone(),
            dense: settings.dense.clone(),
            padding: settings.padding,
            dense_padding: settings.dense_padding,
            unknown: settings.unknown,
        });
        let slots = schema.check().map_err(Fault::Asked)?;
        check(&settings).map_err(Fault::Asked)?;
        let of = fingerprint(&inputs, &schema, &settings)?;
        let position = position.map(|text| read_position(text, &of)).transpose()?;
        let from = position.as_ref().map_or_else(Mark::default, |position| Mark {
            place: Place { input: position.input, offset: position.offset, lines: position.lines },
            bad: position.bad,
        });
        let text = TextSettings {
            threads: settings.threads,
            ordered: settings.ordered,
            bad_lines: settings.bad_lines,
            idle: idle.clone(),
            block_bytes: settings.block_bytes,
        };
        let inputs = Arc::new(inputs);
        let feed = match &settings.cache {
            None => Feed::Text(Box::new(TextFeed::new(inputs, &schema, &slots, from, &text)?)),
            Some(cache) => {
                let text = TextSettings { ordered: true, ..text };
                let seed = settings.shuffle.map(|shuffle| shuffle.seed);
                let directory = cache.directory.clone();
                let feed = CacheFeed::new(inputs, schema.clone(), slots, from, text, directory, seed);
                Feed::Cache(Box::new(feed))
            }
        };
        let mut window = settings.shuffle.map(|settings| Window {
            settings,
            read: Columns::new(&schema, settings.buffer),
            permuted: Columns::new(&schema, settings.buffer),
            given: 0,
            number: 0,
            start: feed.mark(),
        });
        let samples = position.as_ref().map_or(0, |position| position.samples);
        let given = position.as_ref().map_or(0, |position| position.given);
        if let (Some(window), Some(position)) = (&mut window, &position) {
            window.number = position.window;
        }
        let mut reader = Self { schema, settings, of, feed, window, samples, idle, over: false };
        if given > 0 {
            reader.rebuild(given)?;
        }
        Ok(reader)
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The next batch, `None` behind the last one. After an error there is nothing more.
    pub fn next_batch(&mut self) -> Result<Option<Columns>, Fault> {
        if self.over {
            return Ok(None);
        }
        let wanted = self.settings.batch_size;
        let mut batch = Columns::new(&self.schema, wanted);
        let filled = self.fill(wanted, &mut batch);
        self.over = filled.is_err() || batch.size < wanted;
        filled?;
        if batch.size == 0 || (batch.size < wanted && self.settings.drop_last) {
            return Ok(None);
        }
        self.samples += batch.size as u64;
        Ok(Some(batch))
    }

    /// As JSON. A reader of the same inputs, slots and shuffle that is given it goes on behind the last batch.
    pub fn position(&self) -> Result<String, Fault> {
        if !self.settings.ordered && self.settings.threads > 1 && self.settings.cache.is_none() {
            return Err(Fault::Asked("there is no position to go on from: the order was given up".to_string()));
        }
        let (mark, window, given) = match &self.window {
            Some(window) => (window.start, window.number, window.given),
            None => (self.feed.mark(), 0, 0),
        };
        let Mark { place, bad } = mark;
        let position = Position {
            version: 1,
            of: self.of.clone(),
            input: place.input,
            offset: place.offset,
            lines: place.lines,
            bad,
            samples: self.samples,
            window,
            given,
        };
        serde_json::to_string(&position).map_err(|error| Fault::Position(error.to_string()))
    }

    /// What was seen so far: with threads or a shuffle, this may be some samples more than were given out.
    pub fn statistics(&self) -> Value {
        let tally = self.feed.tally();
        let counts = &tally.counts;
        let names = self.schema.sparse.iter().chain(self.schema.dense.iter().map(|slot| &slot.name));
        let missing = counts.sparse_missing.iter().chain(&counts.dense_missing);
        let missing: serde_json::Map<_, _> =
            names.zip(missing).map(|(name, &times)| (name.clone(), times.into())).collect();
        let reasons: serde_json::Map<_, _> =
            tally.bad_by_reason.iter().map(|(reason, &times)| (reason.name().to_string(), times.into())).collect();
        let (made, cache_bytes) = match &self.feed {
            Feed::Text(_) => (json!([]), 0),
            Feed::Cache(feed) => (json!(feed.made), feed.cache_bytes),
        };
        json!({
            "samples": counts.samples,
            "given": self.samples,
            "missing": missing,
            "unknown": counts.unknown,
            "unknown_others": counts.unknown_others,
            "bad_lines": tally.bad,
            "blank_lines": tally.blank,
            "bad_by_reason": reasons,
            "bad_examples": tally.examples,
            "caches_made": made,
            "cache_bytes": cache_bytes,
        })
    }

    fn fill(&mut self, wanted: usize, batch: &mut Columns) -> Result<(), Fault> {
        if self.window.is_none() {
            return self.feed.pull(wanted, batch).map(|_| ());
        }
        while batch.size < wanted {
            if self.window.as_ref().is_some_and(|window| window.given == window.permuted.size) && !self.next_window()? {
                break;
            }
            let Some(window) = &mut self.window else { break };
            let end = window.permuted.size.min(window.given + wanted - batch.size);
            batch.append(&window.permuted, window.given..end);
            window.given = end;
        }
        Ok(())
    }

    /// Reads the next window; false if there is none.
    fn next_window(&mut self) -> Result<bool, Fault> {
        let Some(window) = &mut self.window else { return Ok(false) };
        if window.permuted.size > 0 {
            window.number += 1;
        }
        window.read.clear();
        window.permuted.clear();
        window.given = 0;
        window.start = self.feed.mark();
        while window.read.size < window.settings.buffer {
            let room = window.settings.buffer - window.read.size;
            if self.feed.pull(room.min(FILL), &mut window.read)? == 0 {
                break;
            }
            if let Some(idle) = &self.idle {
                idle().map_err(|error| Fault::File { file: "reader".into(), what: "interrupted".into(), error })?;
            }
        }
        let order = permutation(window.settings.seed, window.number, window.read.size);
        window.permuted.gather(&window.read, &order);
        Ok(window.permuted.size > 0)
    }

    /// The window of a position, of which some samples were given out before.
    fn rebuild(&mut self, given: usize) -> Result<(), Fault> {
        self.next_window()?;
        match &mut self.window {
            Some(window) if given <= window.permuted.size => {
                window.given = given;
                Ok(())
            }
            _ => {
                Err(Fault::Position("the position does not fit: the files have fewer samples than before".to_string()))
            }
        }
    }
}

fn check(settings: &Settings) -> Result<(), String> {
    let mut problems = Vec::new();
    if settings.batch_size == 0 {
        problems.push("a batch must have at least one sample".to_string());
    }
    if settings.threads == 0 || settings.threads > MOST_THREADS {
        problems.push(format!("{} threads: 1 to {MOST_THREADS} are possible", settings.threads));
    }
    if let Some(shuffle) = settings.shuffle
        && (shuffle.buffer == 0 || shuffle.buffer > u32::MAX as usize)
    {
        problems.push(format!("a shuffling buffer of {} samples is not possible", shuffle.buffer));
    }
    if settings.block_bytes.is_some_and(|bytes| bytes < 16) {
        problems.push("blocks must have at least 16 bytes".to_string());
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

/// A directory may be moved, so only the last part of a path counts.
fn fingerprint(inputs: &[Input], schema: &Schema, settings: &Settings) -> Result<String, Fault> {
    let mut hash = Sha256::new();
    for input in inputs {
        let name = input.name.rsplit('/').next().unwrap_or_default();
        hash.update(format!("{name}\0{:?}\0", input.range()));
    }
    let rest = serde_json::to_string(&(schema, settings.shuffle, settings.cache.is_some()));
    hash.update(rest.map_err(|error| Fault::Asked(error.to_string()))?);
    Ok(hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

fn read_position(text: &str, of: &str) -> Result<Position, Fault> {
    let position: Position =
        serde_json::from_str(text).map_err(|error| Fault::Position(format!("not a reader's position: {error}")))?;
    if position.version != 1 {
        return Err(Fault::Position(format!("a position of version {} is not known here", position.version)));
    }
    if position.of != of {
        let text = "the position belongs to other files, slots or settings of the shuffle and the cache";
        return Err(Fault::Position(text.to_string()));
    }
    Ok(position)
}
