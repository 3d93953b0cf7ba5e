//! A client: a trainer's side of a job's servers.
//!
//! ```text
//! session     what a trainer can ask for; one operation at a time
//!   dense       the same for dense tables                  steps      and for synchronous steps
//!   next_rows   rows of the next step, asked for with the end of this one
//!   state       what the client knows and has under way    context    what goes with one operation
//!   delivery    orders to servers, which get there whatever happens     (an adapter)
//!   connecting  and what servers that came back must be told            (an adapter)
//!   orders      what is asked of one server                patience   how long servers may be away
//!   plan        which key goes where, each once                         (a decider)
//!   exchange    requests to all servers, answers as they come           (an adapter)
//!   link        one server: its connection, and what it does not have for good yet
//!   dial        connecting, and the handshake                           (an adapter)
//!   heartbeats  a thread per server that says that this trainer lives
//! ```

pub mod config;
mod connecting;
pub mod context;
mod delivery;
pub mod dense;
pub mod dial;
pub mod error;
mod exchange;
mod heartbeats;
mod link;
pub mod next_rows;
pub mod orders;
mod patience;
mod plan;
pub mod session;
mod state;
mod steps;
pub mod tables;
