//! A client: a trainer's side.
