//! Tables: rows by key, arrays by name, and the rules that change them.

pub mod spec;
