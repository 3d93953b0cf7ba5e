//! A server: its part of the tables, and everything that trainers ask of it.

pub mod connection;
pub mod listener;
pub mod service;
