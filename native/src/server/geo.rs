//! What others have changed since a trainer asked last.
//!
//! An answer can be lost on its way, and taking the marks of changed rows can't be undone. So the keys of the last answer
//! are kept under its number: asked again with the same number, the server tells them again, with the values of now.

use super::engine::Engine;
use super::refusals;
use super::service::{Reply, Request, RequestError};
use crate::table::{Absent, Table};

/// An answer is cut off after the shard with which it becomes longer than this; the next one begins there.
const MOST_BYTES: usize = 64 << 20;

impl Engine {
    pub(super) fn tell_changed(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let Request { who, header, .. } = request;
        let entry = self.tables.get(header.table)?;
        let Table::Sparse(table) = &entry.table else {
            return Err(refusals::bad_request(format!("{:?} is a dense table: pull it", entry.name)).into());
        };
        let width = table.pull_width();
        let (keys, rows) = {
            let mut session = self.sessions.held_by(who)?;
            entry.track(self.config.world);
            let (mut keys, mut rows) = (Vec::new(), Vec::new());
            if let Some((seq, told)) = session.told.remove(&header.table)
                && seq == header.seq
                && seq != 0
            {
                keys = told;
                rows.resize(keys.len() * width, 0.0);
                table.pull(&keys, &mut rows, Absent::Initial);
            }
            let owned = self.tables.owned();
            let shards = owned.len();
            let from = session.cursors.get(&header.table).copied().unwrap_or(0);
            for turn in 0..shards {
                if rows.len() * 4 + keys.len() * 8 > MOST_BYTES {
                    break;
                }
                let at = (from + turn) % shards;
                let shard = owned.start + at;
                let (more_keys, more_rows) = table.take_changed(who.rank as usize, shard..shard + 1);
                keys.extend(more_keys);
                rows.extend(more_rows);
                session.cursors.insert(header.table, (at + 1) % shards);
            }
            session.told.insert(header.table, (header.seq, keys.clone()));
            (keys, rows)
        };
        Ok(reply.keyed_rows(&keys, &rows, width as u32)?)
    }
}
