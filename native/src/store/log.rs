//! The log: records that are on disk before anybody relies on them, at the price of one disk write for many.
//!
//! Appending copies into a buffer under a short lock. A thread takes the buffer, writes it, waits for the disk and tells
//! who waits; meanwhile appenders fill the other buffer. It does so every interval, and at once when somebody waits.
//! The buffers of a server's log outlive the process (see `buffer`): what was appended is there after a kill, and after the
//! loss of the machine what was durable.
//! A log that could not write (disk full, device gone) says so for ever after: nothing is retried, because nobody knows
//! what the kernel kept of a write that failed.
//!
//! `segment` says how it looks on disk and reads it again.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crc32fast::Hasher;

use super::buffer::{self, Buffer};
use super::segment::{self, HEAD, Lock, Segment};
pub use super::segment::{Lsn, MOST_RECORD, Replayed, Visit};
use super::{StoreError, Trouble, sync_dir};
use crate::poison::Unpoisoned;

/// Appenders wait for the disk beyond this many bytes.
const MOST_WAITING: usize = 64 << 20;
/// A buffer that grew beyond this is given back after use.
const KEEP_BUFFER: usize = 80 << 20;
const BUFFERS: [&str; 2] = ["buffer-0.umiak", "buffer-1.umiak"];

pub struct Log {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    dir: PathBuf,
    _lock: Lock,
}

struct Shared {
    state: Mutex<State>,
    /// A copy: there is a failure.
    failed: AtomicBool,
    /// For the thread: there is something to do.
    work: Condvar,
    /// For everybody else: something was done.
    done: Condvar,
}

struct State {
    filling: Batch,
    /// `None` while the thread writes it.
    spare: Option<Buffer>,
    /// When the first record came into `filling`.
    since: Option<Instant>,
    next: Lsn,
    durable: Lsn,
    /// Somebody waits for this record.
    wanted: Lsn,
    /// Somebody waits for a new segment.
    hurry: bool,
    /// The newest segment that was asked for; it exists when it is the last one of `segments`.
    newest: Lsn,
    salt: u64,
    failure: Option<String>,
    stopping: bool,
    /// Oldest first; the last one is being written.
    segments: Vec<Segment>,
}

struct Batch {
    buffer: Buffer,
    /// New segments: from which byte on, from which record on, with which salt.
    cuts: Vec<(usize, Lsn, u64)>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.buffer.len() == 0 && self.cuts.is_empty()
    }
}

/// Reads a log that nobody writes: every record from `from` on, in order. A torn end is cut off; damage is refused.
/// A log that begins after `from`, or ends before it, is refused as well: records are missing.
pub fn replay(dir: &Path, from: Lsn, visit: Visit<'_>) -> Result<Replayed, StoreError> {
    if !dir.exists() {
        return segment::read_all(&mut [], dir, from, visit);
    }
    let _lock = Lock::take(dir)?;
    segment::read_all(&mut segment::survey(dir)?, dir, from, visit)
}

impl Log {
    /// Opens a log, or begins one, without looking at its records: they are numbered on from the last one.
    pub fn open(dir: &Path, interval: Duration) -> Result<Self, StoreError> {
        let (lock, mut segments) = prepare(dir)?;
        let last = segments.len().saturating_sub(1);
        let from = segments.get(last).map_or(1, |segment| segment.first);
        let replayed = segment::read_all(&mut segments[last..], dir, from, &mut |_, _| Ok(()))?;
        Self::start(dir, interval, lock, segments, replayed.last.max(from - 1), [None, None])
    }

    /// `replay`, then `open`, and nobody else in between. What a killed process has left in its buffers is replayed too,
    /// and the buffers of this log outlive its process likewise.
    pub fn recover(
        dir: &Path,
        interval: Duration,
        from: Lsn,
        visit: Visit<'_>,
    ) -> Result<(Self, Replayed), StoreError> {
        let (lock, mut segments) = prepare(dir)?;
        let mut replayed = segment::read_all(&mut segments, dir, from, visit)?;
        let paths = BUFFERS.map(|name| dir.join(name));
        carry_over(dir, &paths, &mut segments, &mut replayed, visit)?;
        let [first, second] = &paths;
        let log = Self::start(dir, interval, lock, segments, replayed.last, [Some(first), Some(second)])?;
        Ok((log, replayed))
    }

    /// A new segment each time: the ones before it are complete, and a crash can't touch them.
    fn start(
        dir: &Path,
        interval: Duration,
        lock: Lock,
        mut segments: Vec<Segment>,
        last: Lsn,
        buffers: [Option<&Path>; 2],
    ) -> Result<Self, StoreError> {
        let salt = random();
        let refuse = |error: std::io::Error| StoreError::io(dir, "a log can't be begun here", &error);
        let (file, fresh) = segment::create(dir, last + 1, salt).map_err(refuse)?;
        segments.retain(|segment| segment.first != fresh.first);
        segments.push(fresh);
        let [mut buffer, spare] = [Buffer::new(buffers[0]).map_err(refuse)?, Buffer::new(buffers[1]).map_err(refuse)?];
        buffer.begin(salt);
        let state = State {
            filling: Batch { buffer, cuts: Vec::new() },
            spare: Some(spare),
            since: None,
            next: last + 1,
            durable: last,
            wanted: 0,
            hurry: false,
            newest: last + 1,
            salt,
            failure: None,
            stopping: false,
            segments,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            failed: AtomicBool::new(false),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        let writer = Writer { shared: shared.clone(), dir: dir.to_path_buf(), file, interval };
        let thread = std::thread::Builder::new().name("umiak-log".to_owned()).spawn(move || writer.run());
        let thread = Some(thread.map_err(refuse)?);
        Ok(Self { shared, thread, dir: dir.to_path_buf(), _lock: lock })
    }

    /// Adds one record, made of these parts, and returns its number. It is durable later: see `wait_durable`.
    pub fn append(&self, parts: &[&[u8]]) -> Result<Lsn, String> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > MOST_RECORD {
            return Err(format!("a record of {length} bytes is longer than the limit of {MOST_RECORD}"));
        }
        let mut crc = Hasher::new();
        parts.iter().for_each(|part| crc.update(part));
        let crc = crc.finalize();
        let mut state = self.shared.lock();
        while state.failure.is_none() && state.filling.buffer.len() > MOST_WAITING {
            state.wanted = state.next - 1;
            self.shared.work.notify_one();
            state = self.shared.wait_done(state);
        }
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let lsn = state.next;
        let head = segment::record_head(state.salt, length, crc, lsn, state.durable);
        if let Err(error) = state.filling.buffer.reserve(HEAD + length) {
            let failure = self.shared.fail(&mut state, format!("the log can't be written: {error}"));
            self.shared.work.notify_one();
            return Err(failure);
        }
        state.next += 1;
        state.filling.buffer.put(&head);
        parts.iter().for_each(|part| state.filling.buffer.put(part));
        if state.since.is_none() {
            state.since = Some(Instant::now());
            self.shared.work.notify_one();
        }
        Ok(lsn)
    }

    /// The newest record that is on disk, with all before it.
    pub fn durable(&self) -> Lsn {
        self.shared.lock().durable
    }

    /// The newest record, on disk or not.
    pub fn last(&self) -> Lsn {
        self.shared.lock().next - 1
    }

    /// Returns when this record is on disk, with all before it. A number that was never given out is taken as `last`.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<(), String> {
        let mut state = self.shared.lock();
        let lsn = lsn.min(state.next - 1);
        while state.durable < lsn {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.wanted < lsn {
                state.wanted = lsn;
                self.shared.work.notify_one();
            }
            state = self.shared.wait_done(state);
        }
        Ok(())
    }

    /// Whether it can't be written any more. Cheap: asked with every request.
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Acquire)
    }

    /// Why this log can't be written any more.
    pub fn failure(&self) -> Option<String> {
        self.shared.lock().failure.clone()
    }

    /// The next record will be the first of a new segment; returns its number, at once. A snapshot that holds everything
    /// before it can be published after `wait_durable(lsn - 1)`, and then `drop_before(lsn)` frees the disk.
    pub fn rotate(&self) -> Lsn {
        let mut state = self.shared.lock();
        let salt = random();
        while state.failure.is_none() && state.newest != state.next && !state.filling.buffer.turn_to(salt) {
            state.hurry = true;
            self.shared.work.notify_one();
            state = self.shared.wait_done(state);
        }
        let lsn = state.next;
        if state.newest != lsn && state.failure.is_none() {
            let at = state.filling.buffer.len();
            state.filling.cuts.push((at, lsn, salt));
            state.salt = salt;
            state.newest = lsn;
            state.since.get_or_insert_with(Instant::now);
            self.shared.work.notify_one();
        }
        lsn
    }

    /// Removes the segments whose records all come before this one; returns how many. Waits for new segments that were
    /// asked for.
    pub fn drop_before(&self, lsn: Lsn) -> Result<usize, String> {
        let old: Vec<Segment> = {
            let mut state = self.shared.lock();
            let newest = state.newest;
            while state.segments.last().is_some_and(|segment| segment.first < newest) {
                if let Some(failure) = &state.failure {
                    return Err(failure.clone());
                }
                state.hurry = true;
                self.shared.work.notify_one();
                state = self.shared.wait_done(state);
            }
            let old = state.segments.windows(2).take_while(|pair| pair[1].first <= lsn).count();
            state.segments.drain(..old).collect()
        };
        // Oldest first: what is left after a crash in between has no gap.
        for segment in &old {
            std::fs::remove_file(&segment.path).map_err(|error| format!("{}: {error}", segment.path.display()))?;
        }
        if !old.is_empty() {
            sync_dir(&self.dir).map_err(|error| error.to_string())?;
        }
        Ok(old.len())
    }

    /// How much there is to replay, written or not.
    pub fn bytes(&self) -> u64 {
        let state = self.shared.lock();
        state.segments.iter().map(|segment| segment.bytes).sum::<u64>() + state.filling.buffer.len() as u64
    }
}

impl Drop for Log {
    /// Everything that was appended goes to disk, if the disk takes it.
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// A panic elsewhere leaves the state as it was between two steps, which is a good one.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unpoisoned()
    }

    /// From now on nothing can be written.
    fn fail(&self, state: &mut State, failure: String) -> String {
        state.failure.get_or_insert(failure.clone());
        self.failed.store(true, Ordering::Release);
        self.done.notify_all();
        failure
    }

    fn wait_done<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.done.wait(state).unpoisoned()
    }
}

/// The thread's side.
struct Writer {
    shared: Arc<Shared>,
    dir: PathBuf,
    file: File,
    interval: Duration,
}

impl Writer {
    fn run(mut self) {
        while let Some((batch, last, path)) = self.next_batch() {
            let outcome = self.write(&batch);
            let mut state = self.shared.lock();
            match outcome {
                Ok((written, fresh)) => {
                    if let Some(segment) = state.segments.last_mut() {
                        segment.bytes += written;
                    }
                    state.segments.extend(fresh);
                    state.durable = last;
                    let mut buffer = batch.buffer;
                    buffer.shrink(KEEP_BUFFER);
                    state.spare = Some(buffer);
                }
                Err(error) => {
                    self.shared.fail(&mut state, format!("{}: the log can't be written: {error}", path.display()));
                }
            }
            let failed = state.failure.is_some();
            drop(state);
            self.shared.done.notify_all();
            if failed {
                return;
            }
        }
        self.close();
    }

    /// Waits until there is something to write and it is time to; `None` when all is written and the log is closed.
    fn next_batch(&self) -> Option<(Batch, Lsn, PathBuf)> {
        let mut state = self.shared.lock();
        loop {
            if state.failure.is_some() {
                return None;
            }
            if state.filling.is_empty() {
                if state.stopping {
                    return None;
                }
                state = self.shared.work.wait(state).unpoisoned();
                continue;
            }
            let full = state.filling.buffer.len() > MOST_WAITING;
            let pressing = state.stopping || state.hurry || state.wanted > state.durable || full;
            let passed = state.since.map_or(self.interval, |since| since.elapsed());
            if pressing || passed >= self.interval {
                break;
            }
            let waited = self.shared.work.wait_timeout(state, self.interval - passed);
            state = waited.unpoisoned().0;
        }
        (state.since, state.hurry) = (None, false);
        // This thread has put it back after the batch before.
        let mut buffer = state.spare.take()?;
        buffer.begin(state.salt);
        let batch = std::mem::replace(&mut state.filling, Batch { buffer, cuts: Vec::new() });
        let path = state.segments.last().map_or_else(|| self.dir.clone(), |segment| segment.path.clone());
        Some((batch, state.next - 1, path))
    }

    /// Writes a batch and waits for the disk. A segment is on disk before the next one exists. Returns how much the
    /// segment grew that was open before, and the new ones.
    fn write(&mut self, batch: &Batch) -> std::io::Result<(u64, Vec<Segment>)> {
        let mut fresh: Vec<Segment> = Vec::new();
        let mut grown = 0;
        let bytes = batch.buffer.bytes();
        let ends = batch.cuts.iter().map(|cut| cut.0).chain([bytes.len()]);
        let mut begin = 0;
        for (part, end) in ends.enumerate() {
            if part > 0 {
                let (_, first, salt) = batch.cuts[part - 1];
                let (file, segment) = segment::create(&self.dir, first, salt)?;
                self.file = file;
                fresh.push(segment);
            }
            if end > begin {
                self.file.write_all(&bytes[begin..end])?;
                self.file.sync_data()?;
            }
            let length = (end - begin) as u64;
            match fresh.last_mut() {
                Some(segment) => segment.bytes += length,
                None => grown += length,
            }
            begin = end;
        }
        Ok((grown, fresh))
    }

    /// Marks the end, so that all records before it are known to have been durable.
    fn close(&mut self) {
        let state = self.shared.lock();
        if state.failure.is_some() {
            return;
        }
        let head = segment::closing_head(state.salt, state.next, state.durable);
        let _ = self.file.write_all(&head).and_then(|()| self.file.sync_data());
        state.filling.buffer.remove();
        state.spare.iter().for_each(Buffer::remove);
    }
}

impl Drop for Writer {
    /// However this thread ends, nobody waits for it for ever.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.failure.is_none() {
            state.failure = Some(format!("{}: the log is closed", self.dir.display()));
            self.shared.failed.store(true, Ordering::Release);
        }
        drop(state);
        self.shared.done.notify_all();
    }
}

/// Records that a killed process had in its buffers, and not yet in a segment: they are handed out, and put into one.
fn carry_over(
    dir: &Path,
    paths: &[PathBuf],
    segments: &mut Vec<Segment>,
    replayed: &mut Replayed,
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    let mut remains: Vec<_> = paths.iter().map(|path| (path, buffer::remains(path))).collect();
    remains.sort_by_key(|(_, records)| records.first().map(|(lsn, _)| *lsn));
    let refuse = |error: std::io::Error| StoreError::io(dir, "what was left in a buffer can't be written", &error);
    let (first, salt) = (replayed.last + 1, random());
    let mut out: Option<(File, Segment)> = None;
    for (path, records) in remains {
        for (lsn, content) in records {
            if lsn != replayed.last + 1 {
                continue;
            }
            visit(lsn, &content).map_err(|why| {
                StoreError::new(Trouble::Schema, path, format!("record {lsn} can't be applied: {why}"))
            })?;
            let (file, segment) = match &mut out {
                Some(out) => out,
                None => out.insert(segment::create(dir, first, salt).map_err(refuse)?),
            };
            let head = segment::record_head(salt, content.len(), crc32fast::hash(&content), lsn, first - 1);
            file.write_all(&head).and_then(|()| file.write_all(&content)).map_err(refuse)?;
            segment.bytes += (HEAD + content.len()) as u64;
            replayed.records += 1;
            replayed.last = lsn;
        }
    }
    if let Some((file, segment)) = out {
        file.sync_data().map_err(refuse)?;
        segments.retain(|old| old.first != segment.first);
        segments.push(segment);
    }
    Ok(())
}

/// The directory, locked; its segments; and what a crash left half made is gone.
fn prepare(dir: &Path) -> Result<(Lock, Vec<Segment>), StoreError> {
    let refuse = |error: std::io::Error| StoreError::io(dir, "can't be made", &error);
    std::fs::create_dir_all(dir).map_err(refuse)?;
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        sync_dir(parent).map_err(refuse)?;
    }
    let lock = Lock::take(dir)?;
    for entry in std::fs::read_dir(dir).map_err(refuse)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(".log-") && name.ends_with(".tmp") {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok((lock, segment::survey(dir)?))
}

/// A number that nobody can guess: the standard library's hashers begin with one.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher as _};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
