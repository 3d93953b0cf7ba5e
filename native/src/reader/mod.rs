//! The slot reader: lines of `slot:value` tokens become batches of columns.
//!
//! ```text
//! source   inputs -> blocks of whole lines        files, byte ranges, pipes, bytes; gzip and zstd
//! parser   block  -> columns, bad lines           prediction of slot names, exact numbers
//! text     blocks -> an ordered stream of samples in this thread, or by a pool
//! cache    a parsed file on disk, mapped into memory: the same stream, without parsing
//! shuffle  windows of that stream, permuted
//! batches  the stream cut into batches, its position and its statistics
//!
//! multislot, samples   the text of Paddle's datasets: counts and values, without names
//! ```
//!
//! Nothing here knows of Python, and nothing is decided by the clock: what is read depends on inputs and settings alone,
//! whatever the number of threads.

pub mod batches;
mod cache;
mod cachefeed;
pub mod columns;
pub mod fault;
mod marks;
pub mod multislot;
mod number;
mod parser;
mod pool;
pub mod samples;
pub mod schema;
pub mod shuffle;
#[cfg(target_arch = "x86_64")]
mod simd8;
pub mod source;
mod steps;
mod tally;
mod text;
#[cfg(target_arch = "x86_64")]
mod together;
mod unknowns;
