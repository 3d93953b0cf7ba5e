//! A frozen moment: what a shard held then can be read while pushes go on.
//!
//! Freezing copies nothing. A thread that first writes to a row afterwards keeps a copy of it, unless the scan has passed it
//! already. What a save does to rows (an accessor's modes) counts from the frozen moment too: a row that is written
//! before the save is over gets it right then, the others when the moment is let go.

use crate::keys::mix;
use crate::table::frozen::Pending;
use crate::table::moving::Moving;
use crate::table::shard::{Shard, Store};
use crate::table::spec::{Ctr, SaveMode};
use crate::table::{RowBatch, ctr, row_flag};

/// Rows that a scan reads before it lets go of the lock.
const AT_ONCE: usize = 512;

/// Must be called before a row is changed or removed while its shard is frozen.
#[cold]
pub fn before_write(
    store: &Store,
    accessor: Option<&Ctr>,
    moving: Option<&Moving>,
    shard: &mut Shard,
    slot: u32,
    wide: u32,
) {
    let Some(frozen) = &mut shard.frozen else { return };
    let ordinal = store.extents.ordinal(slot);
    if ordinal >= frozen.rows || frozen.written.contains_key(&slot) {
        return;
    }
    if let Some(moving) = moving {
        // SAFETY: the caller has the shard, to which the slot belongs.
        unsafe { moving.bring(store, slot, &moving.frozen()) };
    }
    let copy = (ordinal >= frozen.scanned).then(|| {
        append_row(store, moving, slot, wide, &mut frozen.copies);
        frozen.copies.keys.len() - 1
    });
    frozen.written.insert(slot, copy);
    if let Some(accessor) = accessor {
        // SAFETY: the caller has the shard, to which the slot belongs.
        let head = unsafe { store.values(slot) };
        if ctr::resets(frozen.mode) && ctr::is_saved(accessor, frozen.mode, head) {
            // SAFETY: as above.
            frozen.resets.push((slot, unsafe { store.key(slot) }, head[ctr::DELTA_SCORE]));
            head[ctr::DELTA_SCORE] = 0.0;
        }
    }
}

/// Must be called when a row was made while its shard is frozen.
pub fn created(store: &Store, shard: &mut Shard, slot: u32) {
    if let Some(frozen) = &mut shard.frozen
        && store.extents.ordinal(slot) < frozen.rows
    {
        frozen.written.entry(slot).or_insert(None);
    }
}

/// Appends the next rows of the frozen moment to a batch. `false`: there are no more.
pub fn scan_some(
    store: &Store,
    accessor: Option<&Ctr>,
    moving: Option<&Moving>,
    shard: &mut Shard,
    batch: &mut RowBatch,
) -> bool {
    let past = moving.map(|moving| (moving, moving.frozen()));
    let Some(mut frozen) = shard.frozen.take() else { return false };
    let end = (frozen.scanned + AT_ONCE).min(frozen.rows);
    let width = store.layout.values + store.layout.state + store.layout.wide_values + store.layout.wide_state;
    let mode = frozen.mode;
    for ordinal in frozen.scanned..end {
        let slot = shard.slots.slot(&store.extents, ordinal);
        match frozen.written.get(&slot) {
            Some(None) => {}
            Some(&Some(copy)) => {
                let row = &frozen.copies.data[copy * width..(copy + 1) * width];
                if accessor.is_none_or(|accessor| ctr::is_saved(accessor, mode, row)) {
                    batch.keys.push(frozen.copies.keys[copy]);
                    batch.flags.push(frozen.copies.flags[copy]);
                    batch.data.extend_from_slice(row);
                }
            }
            None => {
                if let Some(wide) = live(store, shard, slot) {
                    if let Some((moving, past)) = &past {
                        // SAFETY: the slot belongs to the shard that is borrowed.
                        unsafe { moving.bring(store, slot, past) };
                    }
                    // SAFETY: the slot belongs to the shard that is borrowed.
                    let head = unsafe { store.values(slot) };
                    if accessor.is_none_or(|accessor| ctr::is_saved(accessor, mode, head)) {
                        append_row(store, moving, slot, wide, batch);
                    }
                }
            }
        }
    }
    let mut more = end > frozen.scanned;
    frozen.scanned = end;
    if !more && !frozen.pending_scanned {
        frozen.pending_scanned = true;
        // Keys without rows have no score: saves that go by it leave them out.
        if accessor.is_none() || matches!(mode, SaveMode::All | SaveMode::Full) {
            append_pending(&frozen.pending, width, batch);
            more = true;
        }
    }
    shard.frozen = Some(frozen);
    more
}

/// Whether all rows of the frozen moment were scanned or written since.
pub fn is_through(shard: &Shard) -> bool {
    shard.frozen.as_ref().is_some_and(|frozen| frozen.scanned == frozen.rows)
}

/// Lets go of the frozen moment. `saved`: the rows are safe, so the save's after-effects hold; otherwise they are undone.
pub fn thaw(store: &Store, accessor: Option<&Ctr>, shard: &mut Shard, saved: bool) {
    let Some(frozen) = shard.frozen.take() else { return };
    let Some(accessor) = accessor else { return };
    if !saved {
        for (slot, key, delta_score) in frozen.resets {
            let entry = shard.index.find(store.buckets.hash(mix(key)), key);
            if entry.is_some_and(|entry| entry.slot() == slot) {
                // SAFETY: the slot belongs to the shard that is borrowed.
                let head = unsafe { store.values(slot) };
                head[ctr::DELTA_SCORE] += delta_score;
            }
        }
        return;
    }
    if frozen.mode == SaveMode::All {
        return;
    }
    for ordinal in 0..frozen.rows {
        let slot = shard.slots.slot(&store.extents, ordinal);
        if frozen.written.contains_key(&slot) || live(store, shard, slot).is_none() {
            continue;
        }
        // SAFETY: the slot belongs to the shard that is borrowed.
        let head = unsafe { store.values(slot) };
        if frozen.mode == SaveMode::Full {
            head[ctr::UNSEEN_DAYS] += 1.0;
        } else if ctr::is_saved(accessor, frozen.mode, head) {
            head[ctr::DELTA_SCORE] = 0.0;
        }
    }
}

/// The number of a row's wide part, or `None` if the slot is free. Only tables with an accessor, or whose rows expire, ever
/// remove rows.
pub fn live(store: &Store, shard: &Shard, slot: u32) -> Option<u32> {
    if !store.layout.removes {
        return Some(0);
    }
    // SAFETY: the slot belongs to the shard that is borrowed.
    let key = unsafe { store.key(slot) };
    let entry = shard.index.find(store.buckets.hash(mix(key)), key)?;
    (entry.slot() == slot).then_some(entry.wide)
}

/// Appends a row with all its columns. The caller has the shard to which the slot belongs.
fn append_row(store: &Store, moving: Option<&Moving>, slot: u32, wide: u32, batch: &mut RowBatch) {
    // SAFETY: the caller has the shard, and the references end within these lines.
    unsafe {
        batch.keys.push(store.key(slot));
        batch.data.extend_from_slice(store.values(slot));
        batch.data.extend_from_slice(store.state(slot));
        if wide != 0 {
            batch.data.extend_from_slice(store.wide_values(wide - 1));
            batch.data.extend_from_slice(store.wide_state(wide - 1));
        }
    }
    if wide != 0 {
        batch.flags.push(row_flag::WIDE);
    } else {
        // SAFETY: the caller has the shard.
        let is_new = moving.is_some_and(|moving| unsafe { !moving.has_begun(slot) });
        batch.flags.push(if is_new { row_flag::NEW } else { 0 });
        batch.data.resize(batch.data.len() + store.layout.wide_values + store.layout.wide_state, 0.0);
    }
}

fn append_pending(pending: &Pending, width: usize, batch: &mut RowBatch) {
    let mut keys: Vec<_> = pending.iter().map(|(&key, &count)| (key, count)).collect();
    keys.sort_unstable();
    for (key, count) in keys {
        batch.keys.push(key);
        batch.flags.push(row_flag::PENDING | (count << row_flag::COUNT_SHIFT));
        batch.data.resize(batch.data.len() + width, 0.0);
    }
}
