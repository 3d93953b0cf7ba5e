//! Changes: that they count once, are refused before they do anything, and are told to others.

use super::*;

const CHANGE: &str = "table words: optimizer.learning_rate 1.0 -> 0.5";

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
fn pulls_and_pushes_are_told_by_how_long_they_took() {
    let engine = open(1, None);
    let one = trainer(&engine, 0, 1);
    let table = one.sgd();
    one.push(table, 1, &[7], 1.0);
    one.pull(table, &[7, 8]);
    one.pull(table, &[7]);
    assert_eq!(one.keyed(Op::Push, 99, 2, 0, &[7], 1.0).err().unwrap().code, "unknown-table");
    let told = one.ask(Header::of(Op::Status), &[]).unwrap().json.unwrap()["latencies"].clone();
    let counted = |kind: &str| -> u64 {
        told[kind]["counts"].as_array().unwrap().iter().map(|pair| pair[1].as_u64().unwrap()).sum()
    };
    assert_eq!((counted("pulls"), counted("pushes")), (2, 1), "what was refused took no time worth telling");
    assert_eq!((counted("dense_pulls"), counted("dense_pushes")), (0, 0));
    assert!(told["pulls"]["seconds"].as_f64().unwrap() > 0.0);
}
