//! Readers of tables: Parquet, CSV and JSON lines become columns of ids, numbers or values.
//!
//! ```text
//! ranges    a file, or what lies behind a URL: pieces of it by their place
//! canon     the canonical text of a value, and numbers out of texts
//! moments   dates and times out of texts
//! asked     what is asked of a column, and the types of columns
//! columns   what is read of one: ids, numbers or values, missing ones, lists
//! filler    stored values become those
//! batches   rows that follow one another, without those with bad values
//! parquet   footers, pages and encodings
//! stream    bytes one after the other, unpacked
//! scan      where fields and rows of CSV end, by the rules
//! places    the same of many rows at once
//! csv       CSV and TSV: names of columns, and where a file can be cut
//! csv_fields, csv_rows   its fields on their way to columns; its rows as batches
//! texts     what is read of a text file
//! json      one value of JSON
//! lines     JSON lines
//! ```
//!
//! Whatever the format, the same value gives the same id and the same bits of a number: that is decided in `canon` and
//! `filler` alone. Nothing here knows of Python. Nothing a file says is believed before it was checked against what the
//! file has: damaged and hostile ones are a fault, never a panic, and take no more memory than their content justifies.

pub mod asked;
pub mod batches;
pub mod canon;
pub mod columns;
pub mod csv;
mod csv_fields;
pub mod csv_rows;
pub mod fault;
pub mod filler;
mod json;
pub mod lines;
mod moments;
pub mod parquet;
mod places;
pub mod ranges;
pub mod scan;
pub mod stream;
pub mod texts;
