//! What Python can't see: many threads on one log, specs compared, a writer that is dropped. The rest is in tests/.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;

use super::log::{Log, replay};
use super::manifest::{Manifest, TableEntry};
use super::shardfile::{ShardHead, ShardWriter, file_name};
use super::shardread::{Piece, ShardReader, verify};
use crate::table::RowBatch;
use crate::table::differences::differences;
use crate::table::spec::TableSpec;

struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("umiak-store-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn spec(json: serde_json::Value) -> TableSpec {
    serde_json::from_value(json).unwrap()
}

fn sparse() -> TableSpec {
    spec(json!({"kind": "sparse", "dim": 2, "seed": 1, "init": {"kind": "constant", "value": 0.1},
                "optimizer": {"rule": "adagrad", "learning_rate": 0.1, "epsilon": 1e-6}}))
}

fn dense() -> TableSpec {
    spec(json!({"kind": "dense", "arrays": [{"name": "w", "shape": [3]}],
                "optimizer": {"rule": "sgd", "learning_rate": 0.5}}))
}

fn batch(first: u64, count: usize) -> RowBatch {
    RowBatch {
        keys: (first..first + count as u64).collect(),
        flags: vec![7; count],
        data: (0..4 * count).map(|n| n as f32).collect(),
    }
}

#[test]
fn a_shard_file_comes_back() {
    let place = Place::new();
    let head = ShardHead { shards: 4, shard: 3, count: 1, step: 9, about: json!({"server": 1}) };
    let mut writer = ShardWriter::create(&place.0, &file_name(3), &head).unwrap();
    let state = json!({"power": 0.1 + 0.2});
    writer.table("emb", &sparse(), &state).unwrap();
    writer.rows(&batch(0, 1000)).unwrap();
    writer.rows(&batch(1000, 100_000)).unwrap(); // more than a block holds
    assert!(writer.dense(0, &[1.0], &[]).is_err());
    writer.table("net", &dense(), &json!(null)).unwrap();
    let many: Vec<f32> = (0..600_000).map(|n| n as f32).collect();
    writer.dense(16, &many, &many[1..]).unwrap();
    assert!(writer.rows(&batch(0, 1)).is_err());
    assert!(writer.table("emb", &sparse(), &state).is_err());
    assert!(!place.0.join(file_name(3)).exists());
    let summary = writer.finish().unwrap();
    assert_eq!(summary.rows["emb"], 101_000);
    assert_eq!(summary.rows["net"], 600_000);

    let path = place.0.join(file_name(3));
    let mut reader = ShardReader::open(&path).unwrap();
    assert_eq!(reader.head(), &head);
    let mut rows = RowBatch::default();
    let mut dense_pieces = 0;
    for piece in reader.by_ref() {
        match piece.unwrap() {
            Piece::Table(table) if table.name == "emb" => {
                assert_eq!((table.spec, table.state), (sparse(), state.clone()))
            }
            Piece::Table(table) => assert_eq!(table.spec, dense()),
            Piece::Rows(batch) => {
                rows.keys.extend(batch.keys);
                rows.flags.extend(batch.flags);
                rows.data.extend(batch.data);
            }
            Piece::Dense { offset, values, state } => {
                dense_pieces += 1;
                assert_eq!((offset, &values, &state[..]), (16, &many, &many[1..]));
            }
        }
    }
    assert_eq!(dense_pieces, 1);
    assert_eq!(rows.keys, (0..101_000).collect::<Vec<u64>>());
    assert_eq!(rows.data[4000..], batch(1000, 100_000).data[..]);
    assert_eq!(reader.fingerprint(), Some((summary.bytes, summary.crc32)));
    assert_eq!(verify(&path, Some(&summary)).unwrap(), summary);
    let other = super::shardfile::ShardSummary { crc32: summary.crc32 ^ 1, ..summary };
    assert!(verify(&path, Some(&other)).unwrap_err().to_string().contains("replaced"));
}

#[test]
fn a_dropped_writer_leaves_nothing() {
    let place = Place::new();
    let head = ShardHead { shards: 1, shard: 0, count: 1, step: 0, about: json!(null) };
    drop(ShardWriter::create(&place.0, "a", &head).unwrap());
    assert_eq!(std::fs::read_dir(&place.0).unwrap().count(), 0);
}

#[test]
fn specs_are_compared_field_by_field() {
    assert!(differences(&sparse(), &sparse()).is_empty());
    let mut other = serde_json::to_value(sparse()).unwrap();
    other["dim"] = json!(3);
    other["optimizer"] = json!({"rule": "sgd", "learning_rate": 0.1});
    let lines = differences(&sparse(), &spec(other));
    assert!(lines.contains(&"dim: 2 in the file, 3 in the table".to_owned()), "{lines:?}");
    assert!(lines.contains(&"optimizer.rule: adagrad in the file, sgd in the table".to_owned()), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("learning_rate")), "{lines:?}");
}

#[test]
fn a_manifest_comes_back_and_knows_its_files() {
    let place = Place::new();
    let head = ShardHead { shards: 1, shard: 0, count: 1, step: 0, about: json!(null) };
    let file = ShardWriter::create(&place.0, &file_name(0), &head).unwrap().finish().unwrap();
    let table = TableEntry { spec: sparse(), state: json!({"rate": 0.3}) };
    let manifest = Manifest {
        name: "snapshot".to_owned(),
        shards: 1,
        step: 3,
        saved: 1.5,
        tables: [("emb".to_owned(), table)].into(),
        files: vec![file],
        metadata: json!({"lsn": 12}),
    };
    manifest.write(&place.0).unwrap();
    assert_eq!(Manifest::read(&place.0).unwrap(), manifest);
    std::fs::write(place.0.join(file_name(0)), b"short").unwrap();
    assert!(Manifest::read(&place.0).unwrap_err().to_string().contains("has 5 bytes"));
}

#[test]
fn many_threads_share_a_log() {
    let place = Place::new();
    let big = vec![3u8; 1 << 20];
    {
        let log = Log::open(&place.0, Duration::from_millis(1)).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let (log, big) = (&log, &big);
                scope.spawn(move || {
                    for n in 0..200u32 {
                        let tail: &[u8] = if n % 50 == 0 { big } else { &[] };
                        let lsn = log.append(&[&thread.to_le_bytes(), &n.to_le_bytes(), tail]).unwrap();
                        if n % 10 == 0 {
                            log.wait_durable(lsn).unwrap();
                            assert!(log.durable() >= lsn);
                        }
                        if n % 60 == 0 {
                            log.rotate();
                        }
                    }
                });
            }
        });
        assert_eq!(log.last(), 800);
        assert!(log.bytes() > 16 << 20);
        assert!(replay(&place.0, 1, &mut |_, _| Ok(())).unwrap_err().to_string().contains("another process"));
    }
    let mut seen = [0u32; 4];
    let mut expected = 1;
    let replayed = replay(&place.0, 1, &mut |lsn, record| {
        assert_eq!(lsn, expected);
        expected += 1;
        let thread = u32::from_le_bytes(record[..4].try_into().unwrap()) as usize;
        assert_eq!(u32::from_le_bytes(record[4..8].try_into().unwrap()), seen[thread]);
        seen[thread] += 1;
        Ok(())
    });
    let replayed = replayed.unwrap();
    assert_eq!((replayed.records, replayed.last, replayed.torn, seen), (800, 800, None, [200; 4]));
}

#[test]
fn old_segments_go_and_numbers_go_on() {
    let place = Place::new();
    let count = || std::fs::read_dir(&place.0).unwrap().count() - 1; // the lock
    let log = Log::open(&place.0, Duration::from_secs(3600)).unwrap();
    log.append(&[b"one"]).unwrap();
    let second = log.rotate();
    assert_eq!((second, log.rotate()), (2, 2));
    log.append(&[b"t", b"wo"]).unwrap();
    log.wait_durable(2).unwrap();
    assert_eq!((count(), log.drop_before(second).unwrap(), log.drop_before(second).unwrap(), count()), (2, 1, 0, 1));
    drop(log);
    assert!(replay(&place.0, 1, &mut |_, _| Ok(())).unwrap_err().to_string().contains("begins with record 2"));
    assert!(replay(&place.0, 9, &mut |_, _| Ok(())).unwrap_err().to_string().contains("ends with record 2"));
    let mut seen = Vec::new();
    let (log, _) = Log::recover(&place.0, Duration::ZERO, 2, &mut |lsn, record| {
        seen.push((lsn, record.to_vec()));
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, [(2, b"two".to_vec())]);
    assert_eq!(log.append(&[]).unwrap(), 3);
    drop(log);
    for _ in 0..3 {
        assert_eq!(Log::open(&place.0, Duration::ZERO).unwrap().last(), 3); // empty segments take one another's place
    }
    assert_eq!(count(), 3);
}

/// What a killed process leaves: the files as the kernel has them.
fn copied(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn what_was_appended_is_there_after_a_kill() {
    let place = Place::new();
    let never = Duration::from_secs(3600);
    let recover = |dir: &std::path::Path| {
        let mut found = Vec::new();
        let recovered = Log::recover(dir, never, 1, &mut |lsn, bytes| {
            found.push((lsn, bytes.len()));
            Ok(())
        });
        let (log, replayed) = recovered.unwrap();
        assert_eq!((replayed.records, replayed.last), (found.len() as u64, found.len() as u64));
        assert!((1..).zip(&found).all(|(expected, (lsn, _))| expected == *lsn));
        (log, found.into_iter().map(|(_, length)| length).collect::<Vec<_>>())
    };
    let dir = place.0.join("log");
    let (log, mut lengths) = recover(&dir);
    for round in 0..12usize {
        // Short ones and one that makes the buffer grow; some of them durable, and sometimes a new segment.
        for length in [3, 70_000 * round, 0, 1 << 10] {
            log.append(&[&vec![round as u8; length]]).unwrap();
            lengths.push(length);
            if (round + length) % 5 == 2 {
                log.wait_durable(log.last()).unwrap();
            }
            if (round + length) % 3 == 1 {
                log.rotate();
            }
        }
        let copy = place.0.join(format!("copy-{round}"));
        copied(&dir, &copy);
        let (again, found) = recover(&copy);
        assert_eq!(found, lengths);
        // It goes on from there, and a second kill loses neither the old nor the new.
        again.append(&[b"more"]).unwrap();
        let third = place.0.join(format!("third-{round}"));
        copied(&copy, &third);
        assert_eq!(recover(&third).1, [&lengths[..], &[4]].concat());
        drop(again);
        assert!(!copy.join("buffer-0.umiak").exists(), "closed in peace");
        assert_eq!(recover(&copy).1, [&lengths[..], &[4]].concat());
    }
}

#[test]
fn anything_in_the_place_of_a_buffer_is_no_reason_not_to_start() {
    for rubbish in [Vec::new(), vec![1; 100], vec![0xff; 10_000], vec![0; 300_000]] {
        let place = Place::new();
        let log = Log::open(&place.0, Duration::from_millis(1)).unwrap();
        log.append(&[b"one"]).unwrap();
        drop(log);
        std::fs::write(place.0.join("buffer-1.umiak"), rubbish).unwrap();
        let (log, replayed) = Log::recover(&place.0, Duration::from_millis(1), 1, &mut |_, _| Ok(())).unwrap();
        assert_eq!((replayed.last, log.append(&[b"two"]).unwrap()), (1, 2));
    }
}

#[test]
fn shards_share_files_until_these_are_large() {
    use super::shardfile::{first_shard, shards_per_file};
    assert_eq!(shards_per_file(0, 256), 256);
    assert_eq!(shards_per_file(8 << 20, 256), 256);
    assert_eq!(shards_per_file((8 << 20) + 1, 256), 128);
    assert_eq!(shards_per_file(1 << 40, 256), 1);
    assert_eq!(shards_per_file(1, 0), 1);
    assert_eq!(first_shard(&file_name(4095)), Some(4095));
    assert_eq!(first_shard("MANIFEST"), None);
    assert_eq!(first_shard(".shard-00000.umiak.1-2.tmp"), None);
}
