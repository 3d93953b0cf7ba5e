//! umiak's native core. Rooms from the bottom up; each imports only those above it in this list, and `python` alone knows
//! of Python.

mod crew;
pub mod gather;
pub mod keys;
pub mod reader;
pub mod store;
pub mod table;

pub mod fingerprint;
pub mod wire;

pub mod server;

pub mod client;

#[cfg(feature = "python")]
mod python;
