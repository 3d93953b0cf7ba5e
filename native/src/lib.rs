//! umiak's native core. Modules from the bottom up; each imports only those above it in this list, and `python` alone knows
//! of Python.

mod poison;
mod xxhash;

pub mod gather;
mod helpers;
pub mod keys;
pub mod reader;
pub mod store;
pub mod table;
pub mod tabular;

pub mod features;

pub mod fingerprint;
pub mod wire;

pub mod server;

pub mod client;

#[cfg(feature = "python")]
mod python;
