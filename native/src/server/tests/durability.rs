//! What a server comes back with: log, snapshots, state directory.

use super::*;

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
    assert_eq!(engine.status()["log"]["replayed"], 1, "one record after the newest snapshot");
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
fn two_servers_never_share_a_state_directory() {
    let place = Place::new();
    let _engine = open(1, Some(&place.0));
    assert!(Engine::open(config(1, Some(&place.0))).is_err());
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
