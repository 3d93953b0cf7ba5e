//! A server: its part of the tables, and everything that trainers ask of it.

pub mod service;
