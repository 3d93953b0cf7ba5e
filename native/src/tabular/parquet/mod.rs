//! Parquet files, read by pages. From the bottom up:
//!
//! ```text
//! thrift    the compact protocol that footers and page headers are written in
//! footer    the footer: schema, row groups, column chunks
//! schema    the tree of the footer's schema as columns: names, kinds, levels
//! codecs    pages unpacked
//! hybrid    runs and packed bits: levels, indices of dictionaries
//! delta     differences: DELTA_BINARY_PACKED
//! values    the values of one page, in each encoding
//! chunk     a column of a row group, page after page, a number of rows at a time
//! file      a file, and row groups as batches
//! ```

mod chunk;
mod codecs;
mod delta;
pub mod file;
pub mod footer;
mod hybrid;
pub mod schema;
mod thrift;
mod values;
