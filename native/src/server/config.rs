//! What a server is told when it starts. A value, from JSON.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::members::Patience;
use crate::keys::Sharding;

/// What follows when a trainer is lost on which others wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLoss {
    /// Those who wait are told who it is, and fail.
    #[default]
    Fail,
    /// Steps and barriers count the living only.
    GoOn,
    /// They wait on, as long as anybody lives.
    Wait,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineConfig {
    pub server: usize,
    pub servers: usize,
    #[serde(default = "default_shards")]
    pub shards: usize,
    /// Trainers that are expected.
    pub world: usize,
    #[serde(default)]
    pub job: String,
    /// With one, every change is logged there, and a restart comes back with it.
    #[serde(default)]
    pub state_dir: Option<PathBuf>,
    /// How long a change may wait until it goes to disk together with others.
    #[serde(default = "default_log_ms")]
    pub log_ms: u64,
    /// A log of this size is replaced by a snapshot.
    #[serde(default = "default_snapshot_bytes")]
    pub snapshot_bytes: u64,
    #[serde(default)]
    pub on_loss: OnLoss,
    #[serde(default = "default_grace_s")]
    pub grace_s: f64,
    #[serde(default = "default_arrive_s")]
    pub arrive_s: f64,
    #[serde(default = "default_beat_timeout_s")]
    pub beat_timeout_s: f64,
}

fn default_shards() -> usize {
    Sharding::DEFAULT
}

fn default_log_ms() -> u64 {
    10
}

fn default_snapshot_bytes() -> u64 {
    1 << 30
}

fn default_grace_s() -> f64 {
    60.0
}

fn default_arrive_s() -> f64 {
    600.0
}

fn default_beat_timeout_s() -> f64 {
    10.0
}

pub const MOST_TRAINERS: usize = 65_536;

impl EngineConfig {
    /// The sharding, or every problem in one text.
    pub fn check(&self) -> Result<Sharding, String> {
        let mut problems = Vec::new();
        let sharding = Sharding::new(self.shards);
        if sharding.is_none() {
            problems.push(format!("shards: {} is not a power of two from 1 to {}", self.shards, Sharding::MOST));
        }
        if self.servers == 0 || self.servers > self.shards {
            problems.push(format!("servers: {} is not from 1 to the number of shards, {}", self.servers, self.shards));
        }
        if self.server >= self.servers {
            problems.push(format!("server: there is no number {} among {}", self.server, self.servers));
        }
        if self.world == 0 || self.world > MOST_TRAINERS {
            problems.push(format!("world: {} is not from 1 to {MOST_TRAINERS}", self.world));
        }
        for (name, value) in
            [("grace_s", self.grace_s), ("arrive_s", self.arrive_s), ("beat_timeout_s", self.beat_timeout_s)]
        {
            if !(value > 0.0 && value < 1e9) {
                problems.push(format!("{name}: {value} is not a time in seconds"));
            }
        }
        match sharding {
            Some(sharding) if problems.is_empty() => Ok(sharding),
            _ => Err(problems.join("; ")),
        }
    }

    pub fn patience(&self) -> Patience {
        let milliseconds = |seconds: f64| (seconds * 1000.0) as u64;
        Patience {
            grace: milliseconds(self.grace_s),
            arrive: milliseconds(self.arrive_s.max(self.grace_s)),
            silent: milliseconds(self.beat_timeout_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_needs_little_and_tells_all_its_problems_at_once() {
        let config: EngineConfig = serde_json::from_str(r#"{"server": 1, "servers": 2, "world": 3}"#).unwrap();
        assert_eq!((config.check().unwrap().count(), config.on_loss), (256, OnLoss::Fail));
        let config: EngineConfig =
            serde_json::from_str(r#"{"server": 2, "servers": 2, "world": 0, "shards": 3, "grace_s": -1}"#).unwrap();
        let text = config.check().unwrap_err();
        assert!(["shards", "server:", "world", "grace_s"].iter().all(|word| text.contains(word)), "{text}");
        assert!(
            serde_json::from_str::<EngineConfig>(r#"{"server": 0, "servers": 1, "world": 1, "wolrd": 2}"#).is_err()
        );
    }
}
