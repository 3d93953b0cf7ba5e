//! The index: which slot a key has. One index per shard, without a moment in which everything is moved.
//!
//! Extendible hashing: a directory of buckets of 4 KiB. A bucket that is full is split in two, which moves some hundred
//! entries and nothing else; now and then the directory (8 bytes per bucket) doubles. Hashes fill all buckets alike, so each
//! has a limit of its own, or all of them would be split by the same few calls. Within a bucket, keys are found by linear
//! probing from the start of a cache line, which holds four: mostly in the line that was prefetched.
//!
//! Keys are hashed with a number that is drawn when the table is made, so nobody can send keys that all meet in one
//! bucket. Nothing that can be seen from outside depends on that number.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::keys::mix;
use crate::table::slab::{Plain, Slab};

const BUCKET: usize = 256;
const PLACES: usize = BUCKET - 1;
const PER_LINE: usize = 64 / size_of::<Entry>();
const LINES: usize = BUCKET / PER_LINE;
/// The limits of buckets lie between this and three quarters more, which are 84 % of their places.
const LEAST_FULL: u32 = 122;
const DEEPEST: u32 = 28;
pub const BUCKET_BYTES: usize = BUCKET * size_of::<Entry>();

/// One key. `number` is the slot plus one, so zeroed memory is an empty entry. `wide` is for the table: the slot plus
/// one of the row's second part.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub struct Entry {
    key: u64,
    number: u32,
    pub wide: u32,
}

impl Entry {
    #[inline(always)]
    pub fn slot(&self) -> u32 {
        self.number - 1
    }
}

// SAFETY: three integers; zero bits are an empty entry.
unsafe impl Plain for Entry {}

/// What all indexes of a table share: the memory of their buckets, and the number with which keys are hashed.
pub struct Buckets {
    slab: Slab<Entry>,
    next: AtomicU64,
    secret: u64,
}

impl Buckets {
    pub fn new(secret: u64) -> Self {
        Self { slab: Slab::new(BUCKET), next: AtomicU64::new(0), secret: secret | 1 }
    }

    /// The hash of a mixed key.
    #[inline(always)]
    pub fn hash(&self, mixed: u64) -> u64 {
        mixed.wrapping_mul(self.secret)
    }

    pub fn bytes(&self) -> u64 {
        self.next.load(Ordering::Relaxed) * BUCKET_BYTES as u64
    }

    fn take(&self, depth: u32) -> NonNull<Entry> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.slab.grow(number + 1);
        #[expect(clippy::expect_used, reason = "the line above has seen to it")]
        let bucket = NonNull::new(self.slab.row(number as u32)).expect("the slab has grown");
        debug_assert!((bucket.as_ptr() as usize).is_multiple_of(BUCKET_BYTES));
        // SAFETY: this bucket's memory was just made, and this caller has it alone.
        unsafe { bucket.as_ptr().write(Entry { key: 0, number: limit_of(number), wide: depth }) };
        bucket
    }
}

/// How many entries a bucket has when it is full: the logarithms of all limits are spread evenly, since buckets fill by
/// doubling, and so are those of buckets that came one after the other.
fn limit_of(bucket: u64) -> u32 {
    let golden = (bucket.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as f32 / 4_294_967_296.0;
    (LEAST_FULL as f32 * (0.81 * golden).exp2()) as u32
}

/// Entry 0 of a bucket is its head: `key` counts the entries, `number` is how many there may be, `wide` is the number of bits
/// that all its hashes share.
struct Bucket<'a>(&'a mut [Entry; BUCKET]);

impl Bucket<'_> {
    fn put(&mut self, hash: u64, entry: Entry) {
        let mut place = home(hash);
        while self.0[place].number != 0 {
            place = next(place);
        }
        self.0[place] = entry;
        self.0[0].key += 1;
    }
}

/// Where the search for a hash begins: at the start of a cache line, so that it mostly ends within it.
#[inline(always)]
fn home(hash: u64) -> usize {
    let spread = (hash >> 8) as u32;
    let line = (spread >> (32 - LINES.ilog2())) as usize;
    (line * PER_LINE).max(1)
}

/// The search, entry by entry, until it is found or a place is empty.
fn search(entries: &[Entry; BUCKET], mut place: usize, key: u64) -> Option<&Entry> {
    loop {
        let entry = &entries[place % BUCKET];
        if entry.number == 0 {
            return None;
        }
        if entry.key == key {
            return Some(entry);
        }
        place = next(place);
    }
}

#[inline(always)]
fn next(place: usize) -> usize {
    if place == PLACES { 1 } else { place + 1 }
}

/// The cache line of a bucket in which the search for a key begins, and mostly ends.
#[derive(Clone, Copy)]
pub struct Line(*const [Entry; PER_LINE]);

/// Of an index without buckets.
static NO_LINE: [Entry; PER_LINE] = [Entry { key: 0, number: 0, wide: 0 }; PER_LINE];

impl Line {
    #[inline(always)]
    pub fn address(self) -> *const u8 {
        self.0.cast()
    }

    /// The key's entry, if it is in this line. If not, it may still be elsewhere: behind a line that is full, or in another
    /// bucket, if this one was split since the line was asked for.
    ///
    /// # Safety
    /// The index that gave the line must be alive, and nobody may change it meanwhile.
    #[inline(always)]
    pub unsafe fn find<'a>(self, key: u64) -> Option<&'a Entry> {
        // SAFETY: buckets are never freed while their index lives.
        let entries = unsafe { &*self.0 };
        // The four keys of the line at once: which of them it is can't be foreseen, and a wrong guess costs more than all
        // four comparisons. An empty entry may hold a key, but never before the entry that is looked for.
        let same = |n: usize| u32::from(entries[n].key == key) << n;
        // A bucket begins with its head, at a border of as many bytes as it has.
        let head = u32::from((self.0 as usize).is_multiple_of(BUCKET_BYTES));
        let matches = (same(0) | same(1) | same(2) | same(3)) & !head;
        if matches == 0 {
            return None;
        }
        let entry = &entries[matches.trailing_zeros() as usize % PER_LINE];
        (entry.number != 0).then_some(entry)
    }
}

#[derive(Default)]
pub struct Index {
    directory: Vec<NonNull<Entry>>,
    depth: u32,
    len: usize,
}

// SAFETY: an index owns its buckets: no other index has their addresses, and they outlive it with its table.
unsafe impl Send for Index {}

impl Index {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn directory_bytes(&self) -> usize {
        self.directory.capacity() * size_of::<NonNull<Entry>>()
    }

    #[inline(always)]
    fn cell(&self, hash: u64) -> usize {
        // Two shifts, since a shift by 64 bits is none.
        ((hash >> 1) >> (63 - self.depth)) as usize
    }

    /// Where the search for a hash begins.
    #[inline(always)]
    pub fn line(&self, hash: u64) -> Line {
        match self.directory.get(self.cell(hash)) {
            Some(bucket) => Line(bucket.as_ptr().wrapping_add(home(hash) / PER_LINE * PER_LINE).cast()),
            None => Line(&raw const NO_LINE),
        }
    }

    pub fn find(&self, hash: u64, key: u64) -> Option<&Entry> {
        // SAFETY: the line is this index's, which is borrowed.
        if let Some(entry) = unsafe { self.line(hash).find(key) } {
            return Some(entry);
        }
        let bucket = self.directory.get(self.cell(hash))?;
        // SAFETY: the directory holds addresses of buckets of `BUCKET` entries, owned by this index, which is borrowed.
        let entries = unsafe { bucket.cast::<[Entry; BUCKET]>().as_ref() };
        search(entries, home(hash), key)
    }

    /// Adds a key that is not there.
    pub fn insert(&mut self, from: &Buckets, hash: u64, key: u64, slot: u32, wide: u32) {
        if self.directory.is_empty() {
            self.directory.push(from.take(0));
        }
        let mut cell = self.cell(hash);
        while let Entry { key: count, number: limit, .. } = self.bucket(cell).0[0]
            && count >= u64::from(limit)
        {
            self.split(from, hash);
            cell = self.cell(hash);
        }
        self.bucket(cell).put(hash, Entry { key, number: slot + 1, wide });
        self.len += 1;
    }

    /// Changes what an entry says of the row's second part. The key is there.
    pub fn set_wide(&mut self, hash: u64, key: u64, wide: u32) {
        if let Some(place) = self.place(hash, key) {
            let cell = self.cell(hash);
            self.bucket(cell).0[place].wide = wide;
        }
    }

    /// Removes a key, and moves those that had to give way to it closer to their homes.
    pub fn remove(&mut self, from: &Buckets, hash: u64, key: u64) -> Option<Entry> {
        let mut hole = self.place(hash, key)?;
        let cell = self.cell(hash);
        let entries = self.bucket(cell).0;
        let removed = entries[hole];
        let mut place = next(hole);
        while entries[place].number != 0 {
            let at_home = home(from.hash(mix(entries[place].key)));
            let way_to_hole = (hole + PLACES - at_home) % PLACES;
            let way_to_place = (place + PLACES - at_home) % PLACES;
            if way_to_hole < way_to_place {
                entries[hole] = entries[place];
                hole = place;
            }
            place = next(place);
        }
        entries[hole].number = 0;
        entries[0].key -= 1;
        self.len -= 1;
        Some(removed)
    }

    fn place(&self, hash: u64, key: u64) -> Option<usize> {
        let found: *const Entry = self.find(hash, key)?;
        let bucket = self.directory[self.cell(hash)].as_ptr().cast_const();
        Some((found as usize - bucket as usize) / size_of::<Entry>())
    }

    fn bucket(&mut self, cell: usize) -> Bucket<'_> {
        // SAFETY: as in `find`; the index is borrowed mutably, so this is the only reference into the bucket.
        Bucket(unsafe { self.directory[cell].cast::<[Entry; BUCKET]>().as_mut() })
    }

    /// Splits the bucket of a hash by the next bit of its hashes.
    fn split(&mut self, from: &Buckets, hash: u64) {
        let cell = self.cell(hash);
        let shared = self.bucket(cell).0[0].wide;
        if shared == self.depth {
            assert!(self.depth < DEEPEST, "the keys of a shard can't be told apart by their hashes");
            self.directory = self.directory.iter().flat_map(|&bucket| [bucket, bucket]).collect();
            self.depth += 1;
        }
        let upper = from.take(shared + 1);
        let span = 1usize << (self.depth - shared);
        let first = self.cell(hash) & !(span - 1);
        let old = *self.bucket(first).0;
        self.directory[first + span / 2..first + span].fill(upper);
        self.bucket(first).0.fill(Entry { key: 0, number: 0, wide: 0 });
        self.bucket(first).0[0] = Entry { key: 0, number: old[0].number, wide: shared + 1 };
        for entry in old[1..].iter().filter(|entry| entry.number != 0) {
            let hash = from.hash(mix(entry.key));
            let cell = self.cell(hash);
            self.bucket(cell).put(hash, *entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn finds_what_was_put_in_and_not_what_was_taken_out() {
        let buckets = Buckets::new(0x1234_5678_9ABC_DEF1);
        let mut index = Index::default();
        let mut model = HashMap::new();
        let mut word = 1u64;
        for round in 0..300_000u32 {
            word = mix(word);
            let key = word % 40_000;
            let hash = buckets.hash(mix(key));
            assert_eq!(index.find(hash, key).map(|e| (e.slot(), e.wide)), model.get(&key).copied());
            match (model.contains_key(&key), word >> 62) {
                (false, _) => {
                    index.insert(&buckets, hash, key, round, 0);
                    model.insert(key, (round, 0));
                }
                (true, 0) => {
                    index.set_wide(hash, key, round);
                    model.get_mut(&key).unwrap().1 = round;
                }
                (true, 1) => {
                    let removed = index.remove(&buckets, hash, key).map(|e| (e.slot(), e.wide));
                    assert_eq!(removed, model.remove(&key));
                }
                _ => {}
            }
            assert_eq!(index.len(), model.len());
        }
    }
}
