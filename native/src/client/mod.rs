//! A client: a trainer's side of a job's servers.
//!
//! ```text
//! session     what a trainer can ask for; one operation at a time
//!   dense     the same for dense tables                    steps      and for synchronous steps
//!   delivery  orders to servers, which get there whatever happens     (an adapter)
//!   plan      which key goes where, each once                         (a decider)
//!   exchange  requests to all servers, answers as they come           (an adapter)
//!   link      one server: its connection, and what it does not have for good yet
//!   dial      connecting, and the handshake                           (an adapter)
//!   beats     a thread per server that says that this trainer lives
//! ```

pub mod beats;
pub mod config;
pub mod delivery;
pub mod dense;
pub mod dial;
pub mod error;
pub mod exchange;
pub mod link;
pub mod plan;
pub mod session;
pub mod steps;
pub mod tables;
