//! Threads that parse. Each takes the next block in its turn, parses it on its own and puts it in its place in a bounded
//! queue; so the order is that of the text, unless nobody asks for it.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use super::columns::Columns;
use super::fault::Fault;
use super::parser::{Bad, Cursor, Parser};
use super::schema::{Schema, Slot};
use super::source::{Idle, Place, Source};
use super::tally::Counts;
use crate::poison::Unpoisoned;

/// Blocks that may be finished and not taken, per thread.
const AHEAD: u64 = 3;
const PATIENCE: Duration = Duration::from_millis(100);

/// A block as columns.
pub struct Parsed {
    pub place: Place,
    /// Where the input goes on behind this block.
    pub end: u64,
    pub columns: Columns,
    /// Where in the block each sample's line begins.
    pub starts: Vec<u32>,
    pub bad: Vec<Bad>,
    pub counts: Counts,
}

struct Queue {
    ready: BTreeMap<u64, Result<Parsed, Fault>>,
    /// Blocks that were taken so far.
    taken: u64,
    /// The number of blocks, once it is known.
    total: Option<u64>,
}

struct Shared {
    source: Mutex<(Source, u64)>,
    queue: Mutex<Queue>,
    filled: Condvar,
    emptied: Condvar,
    /// Columns that were read, whose memory is used again.
    spare: Mutex<Vec<Columns>>,
    stop: Arc<AtomicBool>,
    ordered: bool,
    most_ahead: u64,
}

pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    idle: Option<Idle>,
}

impl Pool {
    pub fn start(
        source: Source,
        schema: &Arc<Schema>,
        slots: &HashMap<Vec<u8>, Slot>,
        threads: usize,
        ordered: bool,
        stop: Arc<AtomicBool>,
        idle: Option<Idle>,
    ) -> Result<Self, Fault> {
        let shared = Arc::new(Shared {
            source: Mutex::new((source, 0)),
            queue: Mutex::new(Queue { ready: BTreeMap::new(), taken: 0, total: None }),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            spare: Mutex::new(Vec::new()),
            stop,
            ordered,
            most_ahead: AHEAD * threads as u64,
        });
        let mut pool = Self { shared, threads: Vec::new(), idle };
        for number in 0..threads {
            let (shared, schema, parser) = (pool.shared.clone(), schema.clone(), Parser::new(schema, slots));
            let builder = std::thread::Builder::new().name(format!("slot-reader-{number}"));
            let thread = builder
                .spawn(move || shared.work(&schema, parser))
                .map_err(|error| Fault::Asked(format!("{threads} threads can't be started: {error}")))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// A block that is done with.
    pub fn give_back(&self, mut columns: Columns) {
        columns.clear();
        held(&self.shared.spare).push(columns);
    }

    /// The next block, `None` behind the last one.
    pub fn take(&self) -> Result<Option<Parsed>, Fault> {
        let mut queue = held(&self.shared.queue);
        loop {
            let next = match self.shared.ordered {
                true => Some(queue.taken).filter(|number| queue.ready.contains_key(number)),
                false => queue.ready.keys().next().copied(),
            };
            if let Some(block) = next.and_then(|number| queue.ready.remove(&number)) {
                queue.taken += 1;
                self.shared.emptied.notify_all();
                return block.map(Some);
            }
            if queue.total.is_some_and(|total| queue.taken >= total) {
                return Ok(None);
            }
            queue = self.shared.filled.wait_timeout(queue, PATIENCE).unpoisoned().0;
            if let Some(idle) = &self.idle {
                drop(queue);
                idle().map_err(|error| Fault::File { file: "reader".into(), what: "interrupted".into(), error })?;
                queue = held(&self.shared.queue);
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.emptied.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that has failed has said so in the queue.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self, schema: &Schema, mut parser: Parser) {
        let mut memory = Vec::new();
        while let Some((number, block)) = self.next_block(std::mem::take(&mut memory)) {
            let parsed = match block {
                Ok(block) => {
                    let whole = AssertUnwindSafe(|| self.parse(schema, &mut parser, &block));
                    let parsed = catch_unwind(whole).map_err(|_| Fault::Asked("the parser failed: a defect".into()));
                    memory = block.into_bytes();
                    parsed
                }
                Err(fault) => Err(fault),
            };
            held(&self.queue).ready.insert(number, parsed);
            self.filled.notify_one();
        }
    }

    /// This thread's next block and its number, `None` if there is no more to do.
    #[allow(clippy::type_complexity)]
    fn next_block(&self, memory: Vec<u8>) -> Option<(u64, Result<super::source::Block, Fault>)> {
        // The thread that waits for room holds the source: there is no work for the others either.
        let mut source = held(&self.source);
        let (source, number) = &mut *source;
        let mut queue = held(&self.queue);
        while !self.stop.load(Ordering::Relaxed) && *number - queue.taken >= self.most_ahead {
            queue = self.emptied.wait_timeout(queue, PATIENCE).unpoisoned().0;
        }
        if self.stop.load(Ordering::Relaxed) || queue.total.is_some() {
            return None;
        }
        drop(queue);
        let block = source.next(memory);
        if !matches!(block, Ok(Some(_))) {
            held(&self.queue).total = Some(*number + u64::from(block.is_err()));
            self.filled.notify_one();
        }
        let mine = *number;
        *number += 1;
        block.transpose().map(|block| (mine, block))
    }

    fn parse(&self, schema: &Schema, parser: &mut Parser, block: &super::source::Block) -> Parsed {
        let spare = held(&self.spare).pop();
        let mut columns = spare.unwrap_or_else(|| Columns::new(schema, block.text().len() / 256));
        let (mut starts, mut bad, mut cursor) = (Vec::new(), Vec::new(), Cursor::default());
        parser.parse(block, &mut cursor, usize::MAX, &mut columns, Some(&mut starts), &mut bad);
        let counts = parser.take_counts();
        Parsed { place: block.place, end: block.end, columns, starts, bad, counts }
    }
}

/// A thread that panics here leaves nothing half done.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unpoisoned()
}
