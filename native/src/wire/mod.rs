//! What goes over the network.

pub mod auth;
pub mod codec;
pub mod frame;
pub mod narrow;
pub mod stream;
