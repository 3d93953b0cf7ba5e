//! The samples of inputs that have a cache, in order, or block by block in an order of a seed. A cache that is missing or
//! can't be trusted is made first, by reading the text once.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use super::cache::{self, BLOCK, Cache, Origin, View, Writer};
use super::columns::Columns;
use super::fault::Fault;
use super::schema::{Schema, Slot};
use super::shuffle::permutation;
use super::source::{Input, Mark, Place};
use super::tally::Tally;
use super::text::{TextFeed, TextSettings};

pub struct CacheFeed {
    inputs: Arc<Vec<Input>>,
    schema: Arc<Schema>,
    slots: HashMap<Vec<u8>, Slot>,
    text: TextSettings,
    directory: Option<PathBuf>,
    /// Blocks are given out in this seed's order.
    seed: Option<u64>,
    pub tally: Tally,
    bad: u64,
    input: usize,
    sample: u64,
    open: Option<Open>,
    /// Caches that were made, and why, for the statistics.
    pub made: Vec<(String, String)>,
    pub cache_bytes: u64,
}

struct Open {
    cache: Cache,
    order: Vec<u32>,
    /// The block at hand: its place in the order, and the samples of it that were given out.
    block: usize,
    given: usize,
    view: Option<View>,
}

impl CacheFeed {
    pub fn new(
        inputs: Arc<Vec<Input>>,
        schema: Arc<Schema>,
        slots: HashMap<Vec<u8>, Slot>,
        from: Mark,
        text: TextSettings,
        directory: Option<PathBuf>,
        seed: Option<u64>,
    ) -> Self {
        let tally = Tally::new(&schema);
        let (input, sample) = (from.place.input, from.place.offset);
        let (open, made, cache_bytes) = (None, Vec::new(), 0);
        Self {
            inputs,
            schema,
            slots,
            text,
            directory,
            seed,
            tally,
            bad: from.bad,
            input,
            sample,
            open,
            made,
            cache_bytes,
        }
    }

    /// Adds the next samples, up to `want` of them; none if there are no more.
    pub fn pull(&mut self, want: usize, out: &mut Columns) -> Result<usize, Fault> {
        let until = out.size + want;
        let begun = out.size;
        while out.size < until && self.input < self.inputs.len() {
            if self.open.is_none() {
                self.open()?;
            }
            if !self.copy_some(until, out)? {
                self.open = None;
                self.input += 1;
                self.sample = 0;
            }
        }
        self.tally.counts.samples += (out.size - begun) as u64;
        Ok(out.size - begun)
    }

    /// Behind the last sample that was pulled; `offset` is the number of samples of the input before it.
    pub fn mark(&self) -> Mark {
        Mark { place: Place { input: self.input, offset: self.sample, lines: 0 }, bad: self.bad }
    }

    fn copy_some(&mut self, until: usize, out: &mut Columns) -> Result<bool, Fault> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let Some(&number) = open.order.get(open.block) else { return Ok(false) };
        let number = number as usize;
        if open.view.is_none() {
            open.view = open.cache.view(number, &self.schema);
            if open.view.is_none() {
                self.remake("a block of it is damaged")?;
                return Ok(true);
            }
            self.cache_bytes += open.cache.bytes_of(number);
        }
        let Some(view) = &open.view else { return Ok(false) };
        let size = open.cache.samples_of(number);
        let end = size.min(open.given + until - out.size);
        open.cache.copy(view, open.given..end, out);
        self.sample += (end - open.given) as u64;
        open.given = end;
        if end == size {
            (open.block, open.given, open.view) = (open.block + 1, 0, None);
        }
        Ok(true)
    }

    /// Opens the cache of the input at hand, at the sample where it goes on.
    fn open(&mut self) -> Result<(), Fault> {
        let input = &self.inputs[self.input];
        let fault = |what: &str, error| Fault::File { file: input.name.clone(), what: what.to_string(), error };
        let origin = Origin::of(input).map_err(|error| fault("it can't have a cache", error))?;
        let path = cache::path_of(input, &self.schema, self.directory.as_deref());
        let path = path.map_err(|error| fault("it can't have a cache", error))?;
        let cache = match Cache::open(&path, &origin, &self.schema) {
            Ok(cache) => cache,
            Err(why) => {
                let why = if path.exists() { why } else { "there was none".to_string() };
                self.made.push((path.display().to_string(), why));
                self.build(&path, &origin)?;
                let input = &self.inputs[self.input];
                Cache::open(&path, &origin, &self.schema).map_err(|why| {
                    let what = format!("its cache {} can't be used", path.display());
                    Fault::File { file: input.name.clone(), what, error: std::io::Error::other(why) }
                })?
            }
        };
        let mut counts = cache.tally.clone();
        counts.counts.samples = 0;
        self.tally.add(&counts);
        // What an earlier reader has begun, it has also counted.
        if self.sample == 0 {
            self.bad += cache.tally.bad;
        }
        if self.bad > self.text.bad_lines
            && let Some(bad) = cache.tally.examples.first()
        {
            return Err(Fault::Line { bad: Box::new(bad.clone()), seen: self.bad, limit: self.text.bad_lines });
        }
        self.open = Some(self.at_sample(cache)?);
        Ok(())
    }

    fn at_sample(&self, cache: Cache) -> Result<Open, Fault> {
        let order = match self.seed {
            Some(seed) => permutation(seed, self.input as u64, cache.block_count()),
            None => (0..cache.block_count() as u32).collect(),
        };
        if self.sample > cache.samples {
            let name = &self.inputs[self.input].name;
            let text = format!("{name}: it has {} samples, and {} were read before", cache.samples, self.sample);
            return Err(Fault::Position(text));
        }
        let (mut block, mut given) = (0, self.sample as usize);
        while let Some(&number) = order.get(block) {
            let size = cache.samples_of(number as usize);
            if given < size {
                break;
            }
            (block, given) = (block + 1, given - size);
        }
        Ok(Open { cache, order, block, given, view: None })
    }

    /// A block is not what was written: everything once more, from the text, and on from the same sample.
    fn remake(&mut self, why: &str) -> Result<(), Fault> {
        let input = &self.inputs[self.input];
        let path = cache::path_of(input, &self.schema, self.directory.as_deref()).and_then(|path| {
            // Two damaged blocks in a row: the disk, not an accident.
            if self.made.iter().filter(|(made, _)| *made == path.display().to_string()).count() > 2 {
                return Err(std::io::Error::other("its cache is damaged again and again"));
            }
            fs::remove_file(&path).map(|()| path)
        });
        let path = path.map_err(|error| {
            let what = "its cache can't be made again".to_string();
            Fault::File { file: input.name.clone(), what, error }
        })?;
        self.open = None;
        self.made.push((path.display().to_string(), why.to_string()));
        let (bad, tally) = (self.bad, self.tally.clone());
        self.open()?;
        (self.bad, self.tally) = (bad, tally);
        self.made.pop();
        Ok(())
    }

    fn build(&self, path: &std::path::Path, origin: &Origin) -> Result<(), Fault> {
        let input = &self.inputs[self.input];
        let fault = |error| {
            let what = format!("its cache {} can't be written", path.display());
            Fault::File { file: input.name.clone(), what, error }
        };
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(fault)?;
        }
        let mut writer = Writer::create(path, origin, &self.schema).map_err(fault)?;
        let only = Arc::new(vec![input.clone()]);
        let mut feed =
            TextFeed::new(only, &self.schema, &self.slots, Mark { bad: self.bad, ..Mark::default() }, &self.text)?;
        let mut columns = Columns::new(&self.schema, BLOCK);
        while feed.pull(BLOCK, &mut columns)? > 0 {
            writer.block(&columns).map_err(fault)?;
            columns.clear();
        }
        let after = Origin::of(input).map_err(fault)?;
        if after != *origin {
            return Err(fault(std::io::Error::other("the file was changed while it was read")));
        }
        writer.finish(feed.tally).map_err(fault)
    }
}
