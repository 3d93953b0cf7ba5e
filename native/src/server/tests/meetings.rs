//! Barriers, gathers, and numbers that are given out.

use super::*;

fn gather(who: &Trainer, name: &str, turn: u64, payload: &str) -> Result<Vec<String>, Refusal> {
    let header = Header { rows: name.len() as u32, seq: turn, ..Header::of(Op::Gather) };
    who.ask(header, format!("{name}{payload}").as_bytes()).map(|heard| heard.strings)
}

fn take(who: &Trainer, name: &str, turn: u64) -> Result<u64, Refusal> {
    let header = Header { seq: turn, ..Header::of(Op::Take) };
    who.ask(header, name.as_bytes()).map(|heard| heard.json.unwrap()["number"].as_u64().unwrap())
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
    while engine.core().meetings.gathers.missing("state", &[0, 1]) != [1] {
        std::thread::yield_now();
    }
    assert_eq!(gather(&one, "state", 5, "").unwrap_err().code, "server-forgot");
    engine.coordination.notify();
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
