//! The slot reader: lines of `slot:value` tokens become batches of columns.
//!
//! ```text
//! source   inputs -> blocks of whole lines        files, byte ranges, pipes, bytes; gzip and zstd
//! parser   block  -> columns, bad lines           prediction of slot names, exact numbers
//! text     blocks -> an ordered stream of samples in this thread, or by a pool
//! cache    a parsed file on disk, mapped into memory: the same stream, without parsing
//! shuffle  windows of that stream, permuted
//! reader   the stream cut into batches, its position and its statistics
//! ```
//!
//! Nothing here knows of Python, and nothing is decided by the clock: what is read depends on inputs and settings alone,
//! whatever the number of threads.

pub mod cache;
pub mod cachefeed;
pub mod columns;
pub mod fault;
pub mod marks;
pub mod number;
pub mod parser;
pub mod pool;
pub mod reader;
pub mod schema;
pub mod shuffle;
pub mod source;
pub mod tally;
pub mod text;
