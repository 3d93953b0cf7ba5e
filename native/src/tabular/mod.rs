//! Readers of tables: Parquet, CSV and JSON lines become columns of ids, numbers or values.
//!
//! ```text
//! ranges    a file, or what lies behind a URL: pieces of it by their place
//! canon     the canonical text of a value, and numbers out of texts
//! moments   dates and times out of texts
//! columns   what is asked of a column, and what is read: ids, numbers or values, missing ones, lists
//! batches   rows that follow one another, without those with bad values
//! parquet   footers, pages and encodings
//! stream    bytes one after the other, unpacked
//! scan      where fields and rows of CSV end
//! csv       CSV and TSV
//! json      one value of JSON
//! lines     JSON lines
//! ```
//!
//! Whatever the format, the same value gives the same id and the same bits of a number: that is decided in `canon` and
//! `columns` alone. Nothing here knows of Python. Nothing a file says is believed before it was checked against what the
//! file has: damaged and hostile ones are a fault, never a panic, and take no more memory than their content justifies.

pub mod batches;
pub mod canon;
pub mod columns;
pub mod csv;
pub mod fault;
mod json;
pub mod lines;
mod moments;
pub mod parquet;
pub mod ranges;
pub mod scan;
pub mod stream;
