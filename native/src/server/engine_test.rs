//! A server without sockets: what it answers, what it keeps, and what it comes back with.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicU16;

use super::*;
use crate::server::config::OnLoss;
use crate::server::service::Fill;
use crate::wire::codec;

#[derive(Default)]
struct Heard {
    ok: Option<(u32, u64)>,
    rows: Vec<f32>,
    keys: Vec<u64>,
    strings: Vec<String>,
    json: Option<Value>,
    words: Vec<String>,
}

impl Reply for Heard {
    fn ok(&mut self, table: u32, durable_seq: u64) -> io::Result<()> {
        locks::may_wait();
        self.ok = Some((table, durable_seq));
        Ok(())
    }

    fn rows(&mut self, (rows, dim): (u32, u32), _durable_seq: u64, fill: Fill<'_>) -> io::Result<()> {
        self.rows = vec![0.0; rows as usize * dim as usize];
        fill(0..rows as usize, &mut self.rows);
        Ok(())
    }

    fn keyed_rows(&mut self, keys: &[u64], rows: &[f32], _dim: u32) -> io::Result<()> {
        (self.keys, self.rows) = (keys.to_vec(), rows.to_vec());
        Ok(())
    }

    fn strings(&mut self, count: u32, joined: &[u8], _durable_seq: u64) -> io::Result<()> {
        let strings = codec::split(joined, count).unwrap();
        self.strings = strings.iter().map(|string| String::from_utf8(string.to_vec()).unwrap()).collect();
        Ok(())
    }

    fn json(&mut self, value: &Value) -> io::Result<()> {
        locks::may_wait();
        self.json = Some(value.clone());
        Ok(())
    }

    fn wait(&mut self, text: &str) -> io::Result<()> {
        locks::may_wait();
        self.words.push(text.to_owned());
        Ok(())
    }
}

struct Trainer {
    engine: Arc<Engine>,
    who: Identity,
    welcome: Value,
}

fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(1000);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

fn trainer(engine: &Arc<Engine>, rank: u32, incarnation: u64) -> Trainer {
    let who = Identity { rank, incarnation, kind: Kind::Data, peer: SocketAddr::from(([127, 0, 0, 1], port())) };
    let welcome = engine.welcome(&who).unwrap();
    Trainer { engine: engine.clone(), who, welcome }
}

const DIM: u32 = 2;

impl Trainer {
    fn ask(&self, header: Header, payload: &[u8]) -> Result<Heard, Refusal> {
        let mut heard = Heard::default();
        let header = Header { length: payload.len() as u64, client: self.who.rank, ..header };
        match self.engine.request(&self.who, &header, payload, &mut heard) {
            Ok(()) => Ok(heard),
            Err(RequestError::Refused(refusal)) => Err(refusal),
            Err(RequestError::Io(error)) => panic!("{error}"),
        }
    }

    fn create(&self, name: &str, rule: &str) -> u32 {
        let text = format!(
            r#"{{"name": "{name}", "spec": {{"kind": "sparse", "dim": {DIM}, "seed": 1,
            "init": {{"kind": "constant", "value": 0}}, "optimizer": {rule}}}}}"#
        );
        self.ask(Header::of(Op::Create), text.as_bytes()).unwrap().ok.unwrap().0
    }

    fn sgd(&self) -> u32 {
        self.create("words", r#"{"rule": "sgd", "learning_rate": 1}"#)
    }

    fn keyed(&self, op: Op, table: u32, seq: u64, flags: u16, keys: &[u64], value: f32) -> Result<Heard, Refusal> {
        let rows = vec![value; keys.len() * DIM as usize];
        let payload = [codec::key_bytes(keys), codec::float_bytes(&rows)].concat();
        self.ask(Header { table, seq, flags, rows: keys.len() as u32, dim: DIM, ..Header::of(op) }, &payload)
    }

    fn push(&self, table: u32, seq: u64, keys: &[u64], value: f32) -> u64 {
        self.keyed(Op::Push, table, seq, 0, keys, value).unwrap().ok.unwrap().1
    }

    fn pull(&self, table: u32, keys: &[u64]) -> Vec<f32> {
        let header = Header { table, rows: keys.len() as u32, ..Header::of(Op::Pull) };
        self.ask(header, codec::key_bytes(keys)).unwrap().rows
    }

    fn turn(&self, op: Op, seq: u64) -> Result<(u32, u64), Refusal> {
        self.ask(Header { seq, ..Header::of(op) }, &[]).map(|heard| heard.ok.unwrap())
    }

    fn step(&self, table: u32, step: u64, keys: &[u64], value: f32) {
        self.keyed(Op::Push, table, step, flag::STEP, keys, value).unwrap();
        self.turn(Op::Prepare, step).unwrap();
        self.turn(Op::Commit, step).unwrap();
    }

    fn json(&self, op: Op, text: &str) -> Result<Heard, Refusal> {
        self.ask(Header::of(op), text.as_bytes())
    }
}

fn config(world: usize, dir: Option<&PathBuf>) -> EngineConfig {
    let mut config: EngineConfig =
        serde_json::from_value(json!({"server": 0, "servers": 1, "shards": 4, "world": world})).unwrap();
    config.state_dir = dir.cloned();
    config.log_ms = 1;
    config
}

fn open(world: usize, dir: Option<&PathBuf>) -> Arc<Engine> {
    Engine::open(config(world, dir)).unwrap()
}

/// A directory that is gone when the test is over.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("umiak-engine-{}-{}", std::process::id(), port()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_push_counts_once_whatever_is_repeated() {
    let engine = open(1, None);
    let one = trainer(&engine, 0, 1);
    let table = one.sgd();
    assert_eq!(one.push(table, 3, &[7], 1.0), 3, "without a log what is applied is as good as it gets");
    assert_eq!(one.push(table, 3, &[7], 1.0), 3);
    assert_eq!(one.push(table, 2, &[7], 1.0), 3);
    assert_eq!(one.pull(table, &[7, 8]), [-1.0, -1.0, 0.0, 0.0]);
    let again = trainer(&engine, 0, 1);
    assert_eq!(again.welcome["applied"], 3);
    assert_eq!(one.keyed(Op::Push, table, 4, 0, &[7], 1.0).err().unwrap().code, "replaced");
    assert_eq!(again.push(table, 4, &[7], 1.0), 4);
    assert_eq!(again.pull(table, &[7]), [-2.0, -2.0]);
}

#[test]
fn an_older_process_stays_out() {
    let engine = open(1, None);
    let old = trainer(&engine, 0, 1);
    let table = old.sgd();
    let new = trainer(&engine, 0, 2);
    assert_eq!(old.keyed(Op::Push, table, 1, 0, &[7], 1.0).err().unwrap().code, "replaced");
    assert_eq!(engine.welcome(&old.who).unwrap_err().code, "replaced");
    assert_eq!(new.push(table, 1, &[7], 1.0), 1);
    let stranger = Identity { rank: 1, ..new.who.clone() };
    assert_eq!(engine.welcome(&stranger).unwrap_err().code, "no-such-rank");
}

#[test]
fn requests_that_do_not_fit_are_refused_and_change_nothing() {
    let engine = open(1, None);
    let one = trainer(&engine, 0, 1);
    let table = one.sgd();
    assert_eq!(one.keyed(Op::Push, 99, 1, 0, &[7], 1.0).err().unwrap().code, "unknown-table");
    let wide = Header { table, seq: 1, rows: 1, dim: 3, ..Header::of(Op::Push) };
    assert_eq!(one.ask(wide, &[0; 20]).err().unwrap().code, "bad-request");
    assert_eq!(one.ask(Header { rows: 5, ..wide }, &[0; 20]).err().unwrap().code, "bad-request");
    let dense = Header { table, seq: 1, rows: 1, dim: 1, ..Header::of(Op::PushDense) };
    assert_eq!(one.ask(dense, &[0; 4]).err().unwrap().code, "bad-request");
    let rate = Header { table, seq: 1, rows: 1, dim: 1, ..Header::of(Op::LearningRate) };
    assert_eq!(one.ask(rate, &f32::NAN.to_le_bytes()).err().unwrap().code, "bad-request");
    assert_eq!(one.json(Op::Barrier, "{").err().unwrap().code, "bad-request");
    let text = r#"{"name": "words", "spec": {"kind": "sparse", "dim": 2, "seed": 1,
        "init": {"kind": "constant", "value": 0}, "optimizer": {"rule": "sgd", "learning_rate": 0.5}}}"#;
    let refusal = one.json(Op::Create, text).err().unwrap();
    assert_eq!(refusal.code, "other-spec");
    assert!(refusal.message.contains("optimizer.learning_rate: 1.0 here, 0.5 in the request"), "{}", refusal.message);
    assert_eq!(one.welcome["applied"], 0);
}

const RATED: &str = r#"{"name": "words", "spec": {"kind": "sparse", "dim": 2, "seed": 1,
    "init": {"kind": "constant", "value": 0}, "optimizer": {"rule": "sgd", "learning_rate": 0.5}}}"#;
const CHANGE: &str = "table words: optimizer.learning_rate 1.0 -> 0.5";

#[test]
fn another_script_has_its_own_settings_when_nobody_is_here_who_has_others() {
    let place = Place::new();
    let engine = open(2, Some(&place.0));
    let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1));
    let table = zero.sgd();
    assert_eq!(one.json(Op::Create, RATED).err().unwrap().code, "other-spec", "trainer 0 has it otherwise");
    zero.push(table, 1, &[7], 1.0);
    drop((zero, one));
    engine.stop();
    drop(engine);
    let engine = open(2, Some(&place.0));
    let (zero, one) = (trainer(&engine, 0, 2), trainer(&engine, 1, 2));
    let told = zero.json(Op::Create, RATED).unwrap().json.unwrap();
    assert_eq!(told, json!({"table": table, "change": CHANGE}));
    assert_eq!(zero.json(Op::Create, RATED).unwrap().ok.unwrap().0, table, "as it is now");
    let text = RATED.replace("\"learning_rate\": 0.5", "\"learning_rate\": 1");
    assert_eq!(one.json(Op::Create, &text).err().unwrap().code, "other-spec");
    assert_eq!(one.json(Op::Create, &RATED.replace("\"dim\": 2", "\"dim\": 3")).err().unwrap().code, "other-spec");
    one.push(table, 1, &[7], 1.0);
    assert_eq!(one.pull(table, &[7]), [-1.5, -1.5]);
    engine.stop();
    drop((zero, one));
    drop(engine);
    // The log has it too: the push before it with the old rate, the push after it with the new one.
    let engine = open(2, Some(&place.0));
    let zero = trainer(&engine, 0, 3);
    assert_eq!(zero.pull(table, &[7]), [-1.5, -1.5]);
    assert_eq!(zero.json(Op::Create, RATED).unwrap().ok.unwrap().0, table);
}

#[test]
fn a_checkpoint_is_loaded_with_the_settings_of_who_loads_it() {
    let place = Place::new();
    let engine = open(1, None);
    let one = trainer(&engine, 0, 1);
    let counted = |count: u32| {
        RATED.replace(r#""seed": 1"#, &format!(r#""seed": 1, "entry": {{"by": "count", "count": {count}}}"#))
    };
    let table = one.json(Op::Create, &counted(3)).unwrap().ok.unwrap().0;
    (1..=3).for_each(|seq| assert_eq!(one.push(table, seq, &[7], 1.0), seq));
    (4..=5).for_each(|seq| assert_eq!(one.push(table, seq, &[8], 1.0), seq));
    let path = place.0.join("saved");
    one.json(Op::Save, &json!({"path": path}).to_string()).unwrap();
    let load = json!({"path": path}).to_string();
    // With nobody's description before it, it is as it was saved, until somebody describes it.
    let engine = open(1, None);
    let other = trainer(&engine, 0, 1);
    other.json(Op::Load, &load).unwrap();
    assert!(other.json(Op::Create, &counted(3)).unwrap().ok.is_some());
    for (text, changes, after) in [
        (counted(3), json!([]), -0.5),
        (counted(2), json!(["table words: entry.count 3 -> 2"]), -0.5),
        (RATED.to_owned(), json!(["table words: entry.by count -> always, entry.count 3 -> nothing"]), -0.5),
        (
            counted(3).replace("\"learning_rate\": 0.5", "\"learning_rate\": 2"),
            json!(["table words: optimizer.learning_rate 0.5 -> 2.0"]),
            -2.0,
        ),
    ] {
        let engine = open(1, None);
        let other = trainer(&engine, 0, 1);
        assert_eq!(other.json(Op::Create, &text).unwrap().ok.unwrap().0, table);
        let told = other.json(Op::Load, &load).unwrap().json.unwrap();
        assert_eq!(told["changes"], changes);
        assert_eq!(other.pull(table, &[7]), [-0.5, -0.5]);
        // The third push of a key that waits, or the first one of a table in which none does.
        assert_eq!(other.push(table, 1, &[8], 1.0), 1);
        assert_eq!(other.pull(table, &[8]), [after, after]);
        other
            .json(Op::Save, &json!({"path": place.0.join(format!("{after}{changes}").replace('/', "_"))}).to_string())
            .unwrap();
    }
}

#[test]
fn a_step_is_applied_when_all_have_committed_and_pulls_wait_for_it() {
    let engine = open(2, None);
    let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1));
    let table = zero.sgd();
    zero.step(table, 0, &[7, 8], 1.0);
    assert_eq!(one.pull(table, &[7]), [0.0, 0.0]);
    let waiting = std::thread::spawn(move || {
        let header = Header { table, rows: 1, seq: 1, ..Header::of(Op::Pull) };
        zero.ask(header, codec::key_bytes(&[7])).unwrap().rows
    });
    one.step(table, 0, &[7], 10.0);
    assert_eq!(waiting.join().unwrap(), [-11.0, -11.0]);
    assert_eq!(one.turn(Op::Commit, 0).map(drop).map_err(|refusal| refusal.code), Ok(()), "again");
    assert_eq!(one.turn(Op::Commit, 1).unwrap_err().code, "step-order");
}

#[test]
fn everything_comes_back_from_the_log() {
    let place = Place::new();
    let engine = open(2, Some(&place.0));
    let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1));
    let table = zero.sgd();
    zero.push(table, 1, &[7], 1.0);
    zero.push(table, 2, &[8], 2.0);
    zero.step(table, 0, &[9], 3.0);
    one.keyed(Op::Push, table, 0, flag::STEP, &[9], 4.0).unwrap();
    one.turn(Op::Prepare, 0).unwrap();
    let _ = one.keyed(Op::Add, table, 5, 0, &[7], 0.5);
    let life = zero.welcome["life"].clone();
    engine.stop();
    drop((engine, zero, one));

    let engine = open(2, Some(&place.0));
    let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1));
    assert_ne!(zero.welcome["life"], life);
    assert_eq!((&zero.welcome["applied"], &zero.welcome["durable"]), (&json!(2), &json!(2)));
    assert_eq!(zero.welcome["next"], 1);
    let standing = ["next", "prepared", "yours", "applied"].map(|name| one.welcome[name].clone());
    assert_eq!(standing, [json!(0), json!(true), json!(true), json!(5)]);
    assert_eq!(one.pull(table, &[7, 8, 9]), [-0.5, -0.5, -2.0, -2.0, 0.0, 0.0]);
    zero.push(table, 2, &[8], 2.0);
    one.turn(Op::Commit, 0).unwrap();
    assert_eq!(one.pull(table, &[8, 9]), [-2.0, -2.0, -7.0, -7.0]);
}

#[test]
fn a_snapshot_takes_the_place_of_the_log() {
    let place = Place::new();
    let engine = open(2, Some(&place.0));
    let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1));
    let table = zero.sgd();
    zero.push(table, 1, &[7], 1.0);
    zero.step(table, 0, &[9], 3.0);
    one.keyed(Op::Push, table, 0, flag::STEP, &[9], 4.0).unwrap();
    engine.snapshot().unwrap();
    one.turn(Op::Prepare, 0).unwrap();
    zero.push(table, 2, &[7], 1.0);
    engine.snapshot().unwrap();
    zero.push(table, 3, &[8], 1.0);
    engine.stop();
    drop((engine, zero, one));

    let engine = open(2, Some(&place.0));
    assert_eq!(engine.replayed.load(Ordering::Relaxed), 1, "one record after the newest snapshot");
    assert_eq!(engine.status()["log"]["torn_bytes"], 0);
    let one = trainer(&engine, 1, 2);
    assert_eq!((&one.welcome["prepared"], &one.welcome["yours"]), (&json!(true), &json!(false)));
    one.turn(Op::Commit, 0).unwrap();
    assert_eq!(one.pull(table, &[7, 8, 9]), [-2.0, -2.0, -1.0, -1.0, -7.0, -7.0]);
    let snapshots = std::fs::read_dir(&place.0).unwrap().flatten();
    let names: Vec<String> = snapshots.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("snapshot-")).count(), 1, "{names:?}");
}

#[test]
fn a_snapshot_between_the_parts_of_a_change_loses_none() {
    let place = Place::new();
    let engine = open(1, Some(&place.0));
    let zero = trainer(&engine, 0, 1);
    let table = zero.sgd();
    zero.keyed(Op::Push, table, 1, flag::PART | flag::FIRST | flag::MORE, &[7], 1.0).unwrap();
    engine.snapshot().unwrap();
    zero.keyed(Op::Push, table, 1, flag::PART | flag::MORE, &[8], 2.0).unwrap();
    engine.snapshot().unwrap();
    zero.keyed(Op::Push, table, 1, flag::PART, &[9], 3.0).unwrap();
    let whole = [-1.0, -1.0, -2.0, -2.0, -3.0, -3.0];
    assert_eq!(zero.pull(table, &[7, 8, 9]), whole);
    engine.stop();
    drop((engine, zero));

    let engine = open(1, Some(&place.0));
    let zero = trainer(&engine, 0, 2);
    assert_eq!(zero.welcome["applied"], 1);
    assert_eq!(zero.pull(table, &[7, 8, 9]), whole);
}

#[test]
fn a_state_directory_of_another_server_is_refused_with_words() {
    let place = Place::new();
    open(2, Some(&place.0)).stop();
    let refused = |change: &dyn Fn(&mut EngineConfig)| {
        let mut other = config(2, Some(&place.0));
        change(&mut other);
        Engine::open(other).err().unwrap()
    };
    assert!(refused(&|other| other.job = "b".into()).contains(r#"job is "" there and "b" here"#));
    assert!(refused(&|other| other.servers = 2).contains("the number of servers is 1 there and 2 here"));
    assert!(refused(&|other| other.world = 3).contains("the number of trainers is 2 there and 3 here"));
    std::fs::remove_file(place.0.join("server.json")).unwrap();
    assert!(refused(&|_| ()).contains("is not empty, and not a server's state directory"));
}

#[test]
fn a_server_that_was_killed_while_it_claimed_its_directory_can_start_again() {
    let place = Place::new();
    std::fs::create_dir_all(&place.0).unwrap();
    std::fs::write(place.0.join(".server.json.4711-0.tmp"), "{\"for").unwrap();
    open(1, Some(&place.0)).stop();
    std::fs::write(place.0.join("server.json"), "").unwrap();
    assert!(Engine::open(config(1, Some(&place.0))).err().unwrap().contains("is not understood"));
}

#[test]
fn what_an_earlier_process_prepared_is_not_taken_for_ones_own() {
    let engine = open(1, None);
    let old = trainer(&engine, 0, 1);
    let table = old.sgd();
    old.keyed(Op::Push, table, 0, flag::STEP, &[7], 1.0).unwrap();
    old.turn(Op::Prepare, 0).unwrap();
    let new = trainer(&engine, 0, 2);
    assert_eq!(new.keyed(Op::Push, table, 0, flag::STEP, &[7], 2.0).err().unwrap().code, "step-order");
    new.turn(Op::Abort, 0).unwrap();
    new.step(table, 0, &[7], 2.0);
    assert_eq!(new.pull(table, &[7]), [-2.0, -2.0]);
}

#[test]
fn beats_of_a_trainer_that_knows_this_server_from_before_are_heard_before_its_data_comes() {
    let place = Place::new();
    let engine = open(1, Some(&place.0));
    trainer(&engine, 0, 5).sgd();
    engine.stop();
    drop(engine);
    let engine = open(1, Some(&place.0));
    let who =
        Identity { rank: 0, incarnation: 5, kind: Kind::Control, peer: SocketAddr::from(([127, 0, 0, 1], port())) };
    let welcome = engine.welcome(&who).unwrap();
    let control = Trainer { engine, who, welcome };
    assert!(control.ask(Header::of(Op::Beat), &[]).is_ok());
}

#[test]
fn a_stopped_server_says_so() {
    let engine = open(1, None);
    let one = trainer(&engine, 0, 1);
    engine.stop();
    engine.stop();
    assert_eq!(one.turn(Op::Beat, 0).unwrap_err().code, "stopping");
    assert!(!engine.wait_over(Duration::ZERO).unwrap().ok);
}

#[test]
fn two_servers_never_share_a_state_directory() {
    let place = Place::new();
    let _engine = open(1, Some(&place.0));
    assert!(Engine::open(config(1, Some(&place.0))).is_err());
}

#[test]
fn a_barrier_waits_for_all_and_stays_open() {
    let place = Place::new();
    let engine = open(2, Some(&place.0));
    let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1));
    let waiting = std::thread::spawn(move || zero.json(Op::Barrier, r#"{"name": "start"}"#).is_ok());
    one.json(Op::Barrier, r#"{"name": "start"}"#).unwrap();
    assert!(waiting.join().unwrap());
    engine.stop();
    drop((engine, one));
    let engine = open(2, Some(&place.0));
    let one = trainer(&engine, 1, 2);
    assert!(one.json(Op::Barrier, r#"{"name": "start"}"#).is_ok(), "alone, after a restart of both");
}

#[test]
fn a_lost_trainer_is_named_and_the_job_fails() {
    let engine = open(2, None);
    let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1));
    engine.gone(&one.who);
    engine.core().members.lose(1);
    let refusal = zero.json(Op::Barrier, r#"{"name": "start"}"#).err().unwrap();
    assert_eq!(refusal.code, "trainer-lost");
    assert!(refusal.message.contains("trainer 1 (lost: nothing heard for"), "{}", refusal.message);
    assert_eq!(engine.wait_over(Duration::ZERO), None, "the others can still be told");
    engine.gone(&zero.who);
    let verdict = engine.wait_over(Duration::from_secs(60)).unwrap();
    assert!(!verdict.ok && verdict.text.contains("trainer 1"), "{verdict:?}");
}

#[test]
fn the_last_word_of_a_trainer_is_answered_in_a_failed_job_too() {
    let engine = open(2, None);
    let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1));
    engine.gone(&one.who);
    engine.core().members.lose(1);
    zero.ask(Header::of(Op::Done), &[]).unwrap();
    assert_eq!(engine.wait_over(Duration::ZERO), None, "its answer may still be on the way");
    engine.gone(&zero.who);
    assert!(!engine.wait_over(Duration::from_secs(60)).unwrap().ok);
}

#[test]
fn the_others_go_on_without_a_lost_trainer_and_it_joins_again() {
    let place = Place::new();
    let mut settings = config(2, Some(&place.0));
    settings.on_loss = OnLoss::GoOn;
    let engine = Engine::open(settings).unwrap();
    let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1));
    let table = zero.sgd();
    one.keyed(Op::Push, table, 0, flag::STEP, &[7], 100.0).unwrap();
    engine.gone(&one.who);
    zero.step(table, 0, &[7], 1.0);
    engine.decide(&Decision::Lost { rank: 1 }).unwrap();
    engine.apply_lost(&mut engine.core(), 1);
    let header = Header { table, rows: 1, seq: 1, ..Header::of(Op::Pull) };
    assert_eq!(zero.ask(header, codec::key_bytes(&[7])).unwrap().rows, [-1.0, -1.0]);
    let back = trainer(&engine, 1, 2);
    assert_eq!(back.welcome["joined"], false);
    assert_eq!(back.keyed(Op::Push, table, 1, flag::STEP, &[7], 1.0).err().unwrap().code, "given-up");
    assert_eq!(back.turn(Op::Abort, 0).unwrap_err().code, "step-past");
    back.turn(Op::Abort, 2).unwrap();
    zero.step(table, 1, &[7], 1.0);
    zero.step(table, 2, &[7], 1.0);
    back.step(table, 2, &[7], 10.0);
    assert_eq!(engine.step.load(Ordering::Acquire), 3);
    assert_eq!(zero.pull(table, &[7]), [-13.0, -13.0]);
    engine.stop();
    drop((engine, zero, one, back));
    let engine = open(2, Some(&place.0));
    assert_eq!(trainer(&engine, 1, 3).pull(table, &[7]), [-13.0, -13.0], "and a replay tells the same story");
}

#[test]
fn the_work_is_over_when_all_are_done() {
    let place = Place::new();
    let engine = open(2, Some(&place.0));
    let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1));
    zero.turn(Op::Done, 0).unwrap();
    assert_eq!(engine.wait_over(Duration::ZERO), None);
    one.turn(Op::Done, 0).unwrap();
    one.turn(Op::Done, 0).unwrap();
    engine.gone(&zero.who);
    engine.gone(&one.who);
    assert!(engine.wait_over(Duration::from_secs(60)).unwrap().ok);
    engine.stop();
    assert!(engine.wait_over(Duration::ZERO).unwrap().ok);
    drop((engine, zero, one));
    assert!(open(2, Some(&place.0)).wait_over(Duration::from_secs(60)).unwrap().ok, "known after a restart too");
}

#[test]
fn a_checkpoint_is_one_step_and_loads_into_other_servers() {
    let place = Place::new();
    let engine = open(1, None);
    let one = trainer(&engine, 0, 1);
    let table = one.sgd();
    let keys: Vec<u64> = (0..100).collect();
    one.step(table, 0, &keys, 1.0);
    let path = place.0.join("saved");
    let request = json!({"path": path, "mode": "all", "step": 1}).to_string();
    let answer = one.json(Op::Save, &request).unwrap().json.unwrap();
    assert_eq!((answer["step"].as_u64(), answer["files"].as_array().unwrap().len()), (Some(1), 4));
    one.step(table, 1, &keys, 1.0);
    assert_eq!(one.json(Op::Save, &request).err().unwrap().code, "step-past");
    let load = json!({"path": path, "step": 1}).to_string();
    one.json(Op::Load, &load).unwrap();
    assert_eq!(one.pull(table, &[5]), [-1.0, -1.0]);
    assert_eq!(trainer(&engine, 0, 1).welcome["next"], 1);
    for server in 0..2 {
        let mut settings = config(1, None);
        (settings.server, settings.servers) = (server, 2);
        let half = Engine::open(settings).unwrap();
        let other = trainer(&half, 0, 1);
        other.json(Op::Load, &load).unwrap();
        let own: Vec<u64> = keys
            .iter()
            .copied()
            .filter(|key| half.owned.contains(&half.sharding.shard_of(crate::keys::mix(*key))))
            .collect();
        let entry = half.tables().by_name("words").unwrap().number;
        assert_eq!(other.pull(entry, &own), vec![-1.0; own.len() * 2]);
    }
    std::fs::remove_file(path.join("shard-00002.umiak")).unwrap();
    let now = trainer(&engine, 0, 1);
    assert_eq!(now.json(Op::Load, &load).err().unwrap().code, "load-failed");
    assert_eq!(now.pull(table, &[5]), [-1.0, -1.0], "nothing was changed");
}

#[test]
fn what_others_changed_is_told_again_if_the_answer_was_lost() {
    let engine = open(2, None);
    let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1));
    let table = zero.sgd();
    let changed = |who: &Trainer, seq: u64| {
        let mut keys = who.ask(Header { table, seq, ..Header::of(Op::Changed) }, &[]).unwrap().keys;
        keys.sort_unstable();
        keys
    };
    assert!(changed(&one, 1).is_empty());
    zero.keyed(Op::Add, table, 1, 0, &[3, 4], 1.0).unwrap();
    assert_eq!(changed(&one, 2), [3, 4]);
    zero.keyed(Op::Add, table, 2, 0, &[5], 1.0).unwrap();
    assert_eq!(changed(&one, 2), [3, 4, 5]);
    assert!(changed(&one, 3).is_empty());
    assert_eq!(changed(&zero, 1), [3, 4, 5], "its own as well");
}

#[test]
fn what_a_crash_left_unfinished_of_the_log_is_told() {
    let place = Place::new();
    let engine = open(1, Some(&place.0));
    let trainer = trainer(&engine, 0, 1);
    let table = trainer.sgd();
    trainer.push(table, 1, &[7], 1.0);
    engine.stop();
    drop((engine, trainer));
    let log = std::fs::read_dir(place.0.join("log")).unwrap().flatten().map(|entry| entry.path()).max().unwrap();
    let bytes = std::fs::read(&log).unwrap();
    std::fs::write(&log, &bytes[..bytes.len() - 5]).unwrap();

    let engine = open(1, Some(&place.0));
    assert!(engine.status()["log"]["torn_bytes"].as_u64() > Some(0));
    assert_eq!(self::trainer(&engine, 0, 2).pull(table, &[7]), [-1.0, -1.0]);
}

fn gather(who: &Trainer, name: &str, turn: u64, payload: &str) -> Result<Vec<String>, Refusal> {
    let header = Header { rows: name.len() as u32, seq: turn, ..Header::of(Op::Gather) };
    who.ask(header, format!("{name}{payload}").as_bytes()).map(|heard| heard.strings)
}

fn take(who: &Trainer, name: &str, turn: u64) -> Result<u64, Refusal> {
    let header = Header { seq: turn, ..Header::of(Op::Take) };
    who.ask(header, name.as_bytes()).map(|heard| heard.json.unwrap()["number"].as_u64().unwrap())
}

#[test]
fn a_gather_brings_everybody_the_same_and_outlives_the_server() {
    let place = Place::new();
    let mut engine = open(2, Some(&place.0));
    for turn in 0..3u64 {
        let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1));
        let waiting = std::thread::spawn(move || gather(&zero, "state", turn, &format!("zero {turn}")).unwrap());
        let told = [format!("zero {turn}"), "one".to_owned()];
        assert_eq!(gather(&one, "state", turn, "one").unwrap(), told);
        assert_eq!(waiting.join().unwrap(), told);
        if turn == 1 {
            engine.snapshot().unwrap();
        }
        engine.stop();
        drop((engine, one));
        engine = open(2, Some(&place.0));
        let again = trainer(&engine, 1, 1);
        assert_eq!(gather(&again, "state", turn, "what it brings now is too late").unwrap(), told);
    }
    let refusal = gather(&trainer(&engine, 1, 2), "state", 0, "").unwrap_err();
    assert_eq!((refusal.code, refusal.message.contains("turn 0 is past, the last one was 2")), ("turn-past", true));
}

#[test]
fn a_gather_fails_with_a_lost_trainer_or_goes_on_without() {
    for (on_loss, told) in [(OnLoss::Fail, None), (OnLoss::GoOn, Some(["zero", "", ""]))] {
        let mut settings = config(3, None);
        settings.on_loss = on_loss;
        let engine = Engine::open(settings).unwrap();
        let (zero, one, two) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1), trainer(&engine, 2, 1));
        two.turn(Op::Done, 0).unwrap();
        engine.gone(&one.who);
        engine.core().members.lose(1);
        match (gather(&zero, "state", 0, "zero"), told) {
            (Ok(strings), Some(told)) => assert_eq!(strings, told),
            (Err(refusal), None) => {
                assert_eq!(refusal.code, "trainer-lost");
                assert!(refusal.message.contains(r#"gather "state" can't go on: trainer 1 (lost"#), "{refusal:?}");
            }
            (outcome, _) => panic!("{outcome:?}"),
        }
    }
}

#[test]
fn a_server_that_forgot_a_gather_lets_nobody_wait_for_ever() {
    let engine = open(2, None);
    let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1));
    let waiting = std::thread::spawn(move || gather(&zero, "state", 4, "").unwrap_err().code);
    while engine.core().gathers.missing("state", &[0, 1]) != [1] {
        std::thread::yield_now();
    }
    assert_eq!(gather(&one, "state", 5, "").unwrap_err().code, "server-forgot");
    engine.changed.notify_all();
    assert_eq!(waiting.join().unwrap(), "server-forgot");
}

#[test]
fn gathers_that_are_nonsense_are_refused() {
    let engine = open(1, None);
    let one = trainer(&engine, 0, 1);
    let odd = |rows: u32, bytes: &[u8]| one.ask(Header { rows, ..Header::of(Op::Gather) }, bytes).err().unwrap().code;
    assert_eq!(odd(4, b"abc"), "bad-request");
    assert_eq!(odd(2, &[0xff, 0xfe, 7]), "bad-request");
    assert_eq!(odd(257, &[b'a'; 300]), "bad-request");
    assert_eq!(one.ask(Header::of(Op::Take), &[0xff]).err().unwrap().code, "bad-request");
    assert_eq!(gather(&one, "", 7, "").unwrap(), [""]);
}

#[test]
fn a_number_is_given_once_whatever_is_repeated_or_killed() {
    let place = Place::new();
    let engine = open(2, Some(&place.0));
    let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 1));
    assert_eq!((take(&zero, "part", 0).unwrap(), take(&one, "part", 0).unwrap()), (0, 1));
    assert_eq!((take(&zero, "part", 0).unwrap(), take(&zero, "part", 1).unwrap()), (0, 2));
    assert_eq!(take(&zero, "other", 0).unwrap(), 0);
    engine.snapshot().unwrap();
    assert_eq!(take(&one, "part", 1).unwrap(), 3);
    engine.stop();
    drop((engine, zero, one));
    let engine = open(2, Some(&place.0));
    let (zero, one) = (trainer(&engine, 0, 1), trainer(&engine, 1, 2));
    assert_eq!((take(&zero, "part", 1).unwrap(), take(&zero, "part", 2).unwrap()), (2, 4), "asked again, then on");
    assert_eq!(take(&one, "part", 0).unwrap(), 5, "another process");
    assert_eq!(take(&one, "part", 2).unwrap_err().code, "server-forgot");
    assert_eq!(take(&zero, "part", 0).unwrap_err().code, "turn-past");
}

#[test]
fn a_row_that_is_not_there_reads_as_it_would_be_or_as_zeros() {
    let engine = open(1, None);
    let one = trainer(&engine, 0, 1);
    let text = r#"{"name": "t", "spec": {"kind": "sparse", "dim": 2, "seed": 1,
        "init": {"kind": "constant", "value": 3}, "optimizer": {"rule": "sgd", "learning_rate": 1}}}"#;
    let table = one.json(Op::Create, text).unwrap().ok.unwrap().0;
    one.push(table, 1, &[7], 1.0);
    let read = |flags: u16| {
        let header = Header { table, flags, rows: 2, ..Header::of(Op::Pull) };
        one.ask(header, codec::key_bytes(&[7, 8])).unwrap().rows
    };
    assert_eq!(read(flag::ZEROS), [2.0, 2.0, 0.0, 0.0]);
    assert_eq!(read(0), [2.0, 2.0, 3.0, 3.0]);
    assert_eq!(read(flag::ZEROS | flag::CREATE), [2.0, 2.0, 3.0, 3.0], "it is made");
    assert_eq!(read(flag::ZEROS), [2.0, 2.0, 3.0, 3.0]);
}

#[test]
fn posts_beats_and_looks_go_on_while_snapshots_are_written() {
    let place = Place::new();
    let engine = open(4, Some(&place.0));
    let trainers: Vec<Trainer> = (0..4).map(|rank| trainer(&engine, rank, 1)).collect();
    let table = trainers[0].sgd();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for one in &trainers {
            scope.spawn(|| {
                let mut seq = 0;
                while !over.load(Ordering::SeqCst) {
                    seq += 1;
                    one.ask(Header { rows: 1, ..Header::of(Op::Post) }, b"p!").unwrap();
                    one.push(table, seq, &[u64::from(one.who.rank), 9], 1.0);
                    one.turn(Op::Beat, 0).unwrap();
                    one.json(Op::Status, "").unwrap();
                }
            });
        }
        let outcome = (0..50).try_for_each(|_| engine.snapshot());
        over.store(true, Ordering::SeqCst);
        outcome.unwrap();
    });
    engine.stop();
}

#[test]
fn a_snapshot_without_its_pieces_is_refused() {
    let place = Place::new();
    let engine = open(1, Some(&place.0));
    let one = trainer(&engine, 0, 1);
    let table = one.sgd();
    one.keyed(Op::Push, table, 0, flag::STEP, &[1, 2], 1.0).unwrap();
    one.turn(Op::Prepare, 0).unwrap();
    engine.snapshot().unwrap();
    engine.stop();
    drop((engine, one));
    let snapshot = std::fs::read_dir(&place.0).unwrap().flatten().map(|entry| entry.path());
    let mut snapshot = snapshot.filter(|path| path.join("pieces").is_dir());
    std::fs::remove_dir_all(snapshot.next().unwrap().join("pieces")).unwrap();
    let problem = Engine::open(config(1, Some(&place.0))).err().unwrap();
    assert!(problem.contains("pieces: holds 0 records instead of 1"), "{problem}");
}
