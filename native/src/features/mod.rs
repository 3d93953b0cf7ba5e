//! Features: what a model's ids and numbers are, given columns of a table or the values of a request.
//!
//! ```text
//! ids       how ids are numbered: open, buckets, vocabularies, boundaries, crosses, the ends of lists
//! numbers   what is done to numbers
//! words     words counted, for vocabularies
//! sketch    what is to be known of numbers: exact moments, quantiles
//! ```
//!
//! Deciders: whole columns in, whole columns out. Nothing here knows of Python.

pub mod ids;
pub mod numbers;
pub mod sketch;
pub mod words;
