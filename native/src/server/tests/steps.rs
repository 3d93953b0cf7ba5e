//! Synchronous steps, and trainers that are lost or done.

use super::*;

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
    engine.durability.decide(&Decision::Lost { rank: 1 }).unwrap();
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
    assert_eq!(engine.coordination.step(), 3);
    assert_eq!(zero.pull(table, &[7]), [-13.0, -13.0]);
    engine.stop();
    drop((engine, zero, one, back));
    let engine = open(2, Some(&place.0));
    assert_eq!(trainer(&engine, 1, 3).pull(table, &[7]), [-13.0, -13.0], "and a replay tells the same story");
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
fn a_stopped_server_says_so() {
    let engine = open(1, None);
    let one = trainer(&engine, 0, 1);
    engine.stop();
    engine.stop();
    assert_eq!(one.turn(Op::Beat, 0).unwrap_err().code, "stopping");
    assert!(!engine.wait_over(Duration::ZERO).unwrap().ok);
}
