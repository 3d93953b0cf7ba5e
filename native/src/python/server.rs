//! `Server`: a listener and the state behind it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use serde::Deserialize;

use super::errors;
use crate::client::context::TICK;
use crate::poison::Unpoisoned;
use crate::server::config::{EngineConfig, OnLoss};
use crate::server::connection::Limits;
use crate::server::engine::Engine;
use crate::server::listener::{Listener, Setup};
use crate::server::service::Refusal;
use crate::wire::stream::{self, TlsFiles};

/// What Python says; the stub describes it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    host: String,
    port: u16,
    job: String,
    index: usize,
    servers: usize,
    shards: usize,
    world: usize,
    tls: Option<TlsFiles>,
    log: Option<LogConfig>,
    on_loss: OnLoss,
    grace_s: f64,
    arrive_s: f64,
    beat_timeout_s: f64,
    most_frame: u64,
    most_connections: usize,
    most_strangers: usize,
    frame_s: f64,
    handshake_s: f64,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogConfig {
    dir: PathBuf,
    interval_ms: u64,
    #[serde(default = "snapshot_bytes")]
    snapshot_bytes: u64,
}

fn snapshot_bytes() -> u64 {
    1 << 30
}

impl Default for Config {
    fn default() -> Config {
        let limits = Limits::default();
        Config {
            host: "127.0.0.1".into(),
            port: 0,
            job: String::new(),
            index: 0,
            servers: 1,
            shards: crate::keys::Sharding::DEFAULT,
            world: 1,
            tls: None,
            log: None,
            on_loss: OnLoss::default(),
            grace_s: 60.0,
            arrive_s: 600.0,
            beat_timeout_s: 10.0,
            most_frame: limits.most_frame,
            most_connections: limits.most_connections,
            most_strangers: limits.most_strangers,
            frame_s: limits.frame.as_secs_f64(),
            handshake_s: limits.handshake.as_secs_f64(),
        }
    }
}

impl Config {
    fn parse(text: &str) -> Result<Config, Refusal> {
        let bad = |message: String| Refusal { code: "bad-config", message, hint: None };
        let config: Config = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        let mut problems: Vec<String> = config.engine().check().err().into_iter().collect();
        for (name, value) in [("frame_s", config.frame_s), ("handshake_s", config.handshake_s)] {
            if !(value > 0.0 && value < 1e9) {
                problems.push(format!("{name}: {value} is not a time in seconds"));
            }
        }
        if config.most_connections == 0 || config.most_strangers == 0 || config.most_frame < 1 << 10 {
            problems.push("most_connections, most_strangers, most_frame: too little to serve anybody".into());
        }
        if let Some(tls) = &config.tls {
            problems.extend(stream::server_tls(tls).err());
        }
        if problems.is_empty() { Ok(config) } else { Err(bad(problems.join("; "))) }
    }

    fn engine(&self) -> EngineConfig {
        let log = self.log.as_ref();
        EngineConfig {
            server: self.index,
            servers: self.servers,
            shards: self.shards,
            world: self.world,
            job: self.job.clone(),
            state_dir: log.map(|log| log.dir.clone()),
            log_ms: log.map_or(10, |log| log.interval_ms),
            snapshot_bytes: log.map_or_else(snapshot_bytes, |log| log.snapshot_bytes),
            on_loss: self.on_loss,
            grace_s: self.grace_s,
            arrive_s: self.arrive_s,
            beat_timeout_s: self.beat_timeout_s,
        }
    }

    fn setup(&self, token: Option<Vec<u8>>) -> Result<Setup, String> {
        Ok(Setup {
            host: self.host.clone(),
            port: self.port,
            job: self.job.clone(),
            token,
            tls: self.tls.as_ref().map(stream::server_tls).transpose()?,
            limits: Limits {
                most_frame: self.most_frame,
                most_connections: self.most_connections,
                most_strangers: self.most_strangers,
                handshake: Duration::from_secs_f64(self.handshake_s),
                frame: Duration::from_secs_f64(self.frame_s),
                ..Limits::default()
            },
        })
    }
}

#[pyclass(frozen, module = "umiak_native")]
pub struct Server {
    config: Config,
    token: Option<Vec<u8>>,
    running: Mutex<Option<Running>>,
    /// The process that made it. A fork has copies of its sockets, and none of its threads.
    process: u32,
}

struct Running {
    engine: Arc<Engine>,
    listener: Listener,
}

impl Running {
    /// Those who wait are told, then the door is closed.
    fn stop(mut self) {
        self.engine.stop();
        self.listener.stop();
    }
}

impl Server {
    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unpoisoned()
    }

    fn engine(&self) -> Result<Arc<Engine>, Refusal> {
        let idle = || Refusal { code: "not-started", message: "this server is not running".into(), hint: None };
        self.running().as_ref().map(|running| running.engine.clone()).ok_or_else(idle)
    }

    fn begin(&self) -> Result<u16, Refusal> {
        let mut running = self.running();
        if let Some(running) = &*running {
            return Ok(running.listener.address().port());
        }
        let failed = |message: String| Refusal { code: "no-start", message, hint: None };
        let setup = self.config.setup(self.token.clone()).map_err(failed)?;
        let engine = Engine::open(self.config.engine()).map_err(failed)?;
        let listener = Listener::start(setup, engine.clone()).inspect_err(|_| engine.stop())?;
        let port = listener.address().port();
        *running = Some(Running { engine, listener });
        Ok(port)
    }
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (config, token=None))]
    fn new(py: Python<'_>, config: &str, token: Option<&[u8]>) -> PyResult<Self> {
        let config = Config::parse(config).map_err(|refusal| errors::refused(py, refusal))?;
        Ok(Server { config, token: token.map(<[u8]>::to_vec), running: Mutex::new(None), process: std::process::id() })
    }

    fn start(&self, py: Python<'_>) -> PyResult<u16> {
        py.detach(|| self.begin()).map_err(|refusal| errors::refused(py, refusal))
    }

    #[pyo3(signature = (timeout_s=None))]
    fn wait(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<Option<String>> {
        let engine = self.engine().map_err(|refusal| errors::refused(py, refusal))?;
        let deadline = timeout_s.map(errors::duration).transpose()?.map(|timeout| Instant::now() + timeout);
        loop {
            let left = deadline.map_or(TICK, |deadline| deadline.saturating_duration_since(Instant::now()));
            if let Some(verdict) = py.detach(|| engine.wait_over(left.min(TICK))) {
                return Ok(Some(serde_json::json!(verdict).to_string()));
            }
            py.check_signals()?;
            if left.is_zero() || self.running().is_none() {
                return Ok(None);
            }
        }
    }

    fn status(&self, py: Python<'_>) -> PyResult<String> {
        let engine = self.engine().map_err(|refusal| errors::refused(py, refusal))?;
        py.detach(|| {
            let mut status = engine.status();
            if let (Some(fields), Some(running)) = (status.as_object_mut(), &*self.running()) {
                fields.insert("connections".into(), running.listener.connections().into());
            }
            Ok(status.to_string())
        })
    }

    fn stop(&self, py: Python<'_>) {
        py.detach(|| {
            let running = self.running().take();
            if let Some(running) = running {
                running.stop();
            }
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let running = self.running().take();
        if std::process::id() != self.process {
            std::mem::forget(running);
        } else if let Some(running) = running {
            // Its threads never ask for the GIL, so waiting for them here is safe.
            running.stop();
        }
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Server>()
}
