//! What goes over the network.

pub mod frame;
