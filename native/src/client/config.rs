//! What a client is told when it starts. A value, from JSON.

use serde::Deserialize;

use crate::keys::Sharding;
use crate::wire::codec::MOST_FRAME;
use crate::wire::stream::TlsFiles;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// All servers of the job, in the order of their numbers.
    pub endpoints: Vec<String>,
    #[serde(default)]
    pub rank: u32,
    #[serde(default = "default_world")]
    pub world: usize,
    #[serde(default)]
    pub job: String,
    #[serde(default = "default_shards")]
    pub shards: usize,
    #[serde(default)]
    pub kind: Kind,
    #[serde(default = "default_timeout")]
    pub timeout_s: f64,
    #[serde(default = "default_beat")]
    pub beat_s: f64,
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    #[serde(default = "default_replay")]
    pub replay_bytes: usize,
    /// What follows a header at most, in bytes: longer requests are cut into parts.
    #[serde(default = "default_frame")]
    pub most_frame: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    #[default]
    Trainer,
    Observer,
}

fn default_world() -> usize {
    1
}

fn default_shards() -> usize {
    Sharding::DEFAULT
}

fn default_timeout() -> f64 {
    60.0
}

fn default_beat() -> f64 {
    1.0
}

fn default_replay() -> usize {
    256 << 20
}

fn default_frame() -> usize {
    MOST_FRAME as usize
}

impl Config {
    /// The configuration and its sharding, or every problem in one text.
    pub fn parse(text: &str) -> Result<(Config, Sharding), String> {
        let config: Config = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut problems = Vec::new();
        if config.endpoints.is_empty() {
            problems.push("endpoints: there is none".to_owned());
        }
        for endpoint in &config.endpoints {
            if !endpoint.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) {
                problems.push(format!("endpoints: {endpoint:?} is not host:port"));
            }
        }
        let sharding = Sharding::new(config.shards);
        if sharding.is_none() {
            problems.push(format!("shards: {} is not a power of two from 1 to {}", config.shards, Sharding::MOST));
        } else if config.endpoints.len() > config.shards {
            problems.push(format!("endpoints: more servers than the {} virtual shards", config.shards));
        }
        if config.kind == Kind::Trainer && config.rank as usize >= config.world {
            problems.push(format!("rank: {} is not from 0 to world - 1, {}", config.rank, config.world as i64 - 1));
        }
        for (name, value) in [("timeout_s", config.timeout_s), ("beat_s", config.beat_s)] {
            if !(value > 0.0 && value < 1e9) {
                problems.push(format!("{name}: {value} is not a time in seconds"));
            }
        }
        match sharding {
            Some(sharding) if problems.is_empty() => Ok((config, sharding)),
            _ => Err(problems.join("; ")),
        }
    }
}
