//! Rows with click-through statistics (Paddle's accessor): how they begin, what a push does to them, when their wide part
//! comes, how they fade, and which of them a save takes.

use crate::keys::mix;
use crate::table::spec::{Ctr, SaveMode, SparseSpec};

// Columns of a row's head. After them: embed_w's state.
pub const SLOT: usize = 0;
pub const UNSEEN_DAYS: usize = 1;
pub const DELTA_SCORE: usize = 2;
pub const SHOW: usize = 3;
pub const CLICK: usize = 4;
pub const EMBED: usize = 5;
pub const EMBED_STATE: usize = 6;

// Columns of a pushed row: slot, show, click, embed_w's gradient, then the wide part's.
pub const PUSHED_SHOW: usize = 1;
pub const PUSHED_CLICK: usize = 2;
pub const PUSHED_EMBED: usize = 3;
pub const PUSHED_WIDE: usize = 4;

pub fn score(accessor: &Ctr, show: f32, click: f32) -> f32 {
    (show - click) * accessor.nonclk_coeff + click * accessor.click_coeff
}

/// embed_w of a new row.
pub fn first_embed(spec: &SparseSpec, accessor: &Ctr, key: u64) -> f32 {
    let mut embed = [0.0];
    if !accessor.zero_init {
        // Another seed than the wide part's, or both would begin with the same numbers.
        accessor.embed_init.fill(mix(spec.seed), key, &mut embed);
    }
    embed[0]
}

pub fn fill_head(spec: &SparseSpec, accessor: &Ctr, key: u64, head: &mut [f32]) {
    head[..EMBED].fill(0.0);
    head[EMBED] = first_embed(spec, accessor, key);
    accessor.embed_optimizer.fill_state(&mut head[EMBED_STATE..]);
}

/// Takes a push into a row's statistics.
pub fn count_push(accessor: &Ctr, head: &mut [f32], pushed: &[f32]) {
    let (show, click) = (pushed[PUSHED_SHOW], pushed[PUSHED_CLICK]);
    head[SLOT] = pushed[SLOT];
    head[SHOW] += show;
    head[CLICK] += click;
    head[DELTA_SCORE] += score(accessor, show, click);
    head[UNSEEN_DAYS] = 0.0;
}

/// By what gradients are divided. A push without a show is taken as it is.
pub fn scale(accessor: &Ctr, pushed: &[f32]) -> f32 {
    let show = pushed[PUSHED_SHOW];
    if accessor.show_scale && show > 0.0 { show } else { 1.0 }
}

pub fn earns_wide_part(accessor: &Ctr, head: &[f32]) -> bool {
    score(accessor, head[SHOW], head[CLICK]) >= accessor.embedx_threshold
}

/// A day passes. `false`: the row is not worth its memory any more.
pub fn fade(accessor: &Ctr, head: &mut [f32]) -> bool {
    head[SHOW] *= accessor.show_click_decay_rate;
    head[CLICK] *= accessor.show_click_decay_rate;
    let worthless = score(accessor, head[SHOW], head[CLICK]) < accessor.delete_threshold;
    !(worthless || head[UNSEEN_DAYS] > accessor.delete_after_unseen_days)
}

/// Whether a save in this mode takes a row.
pub fn is_saved(accessor: &Ctr, mode: SaveMode, head: &[f32]) -> bool {
    let delta_threshold = match mode {
        SaveMode::All | SaveMode::Full => return true,
        SaveMode::Delta => accessor.delta_threshold,
        SaveMode::Base => 0.0,
    };
    score(accessor, head[SHOW], head[CLICK]) >= accessor.base_threshold
        && head[DELTA_SCORE] >= delta_threshold
        && head[UNSEEN_DAYS] <= accessor.delta_keep_days
}

/// Whether a save in this mode resets delta_score of the rows that it takes.
pub fn resets(mode: SaveMode) -> bool {
    matches!(mode, SaveMode::Delta | SaveMode::Base)
}
