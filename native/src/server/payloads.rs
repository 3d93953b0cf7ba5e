//! What stands in the payloads of requests that are no numbers. Values and pure functions.

use serde::Deserialize;

use super::refusals;
use super::service::{Refusal, Request};
use crate::table::spec::TableSpec;
use crate::wire::codec;
use crate::wire::frame::Op;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Creation {
    pub name: String,
    pub spec: TableSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meeting {
    pub name: String,
    #[serde(default)]
    pub turn: u64,
}

pub fn parse<'a, T: Deserialize<'a>>(op: Op, payload: &'a [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(payload).map_err(|error| refusals::bad_request(format!("{op:?}: {error}")))
}

/// Names are kept for ever, so they have a limit.
pub fn name(op: Op, bytes: &[u8]) -> Result<&str, Refusal> {
    match std::str::from_utf8(bytes) {
        Ok(name) if name.len() as u64 <= codec::MOST_NAME => Ok(name),
        _ => Err(refusals::bad_request(format!("{op:?}: a name is a text of at most {} bytes", codec::MOST_NAME))),
    }
}

/// The name in front of what a trainer brings, and that.
pub fn named(request: Request<'_>) -> Result<(&str, &[u8]), Refusal> {
    let op = request.header.op;
    let short = || refusals::bad_request(format!("{op:?}: the payload is shorter than its header says"));
    let (name, brought) = request.payload.split_at_checked(request.header.rows as usize).ok_or_else(short)?;
    Ok((self::name(op, name)?, brought))
}
