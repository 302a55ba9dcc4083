//! Tests that need another process: this test binary, started once more with
//! one ignored test.

use std::env;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::*;

fn child(test: &str, path: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    let (_, module) = module_path!().split_once("::").unwrap();
    let test = format!("{module}::{test}");
    command
        .args(["--exact", &test, "--ignored", "--nocapture"])
        .env(PATH, path);
    command
}

fn given_path() -> PathBuf {
    env::var_os(PATH).expect("its parent gives a path").into()
}

const PATH: &str = "SEKISHO_TEST_STORE";

#[tokio::test]
async fn a_killed_writer_leaves_whole_batches() {
    let folder = Folder::new();
    let store = folder.create();
    for round in 1..=3 {
        let mut child = child("writes_until_killed", &folder.path())
            .env("SEKISHO_TEST_ROUND", round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Mid-way: some batches are acknowledged, another is under way.
        let acknowledged = lines.by_ref().map(|line| line.unwrap()).find_map(|line| {
            let number = line.strip_prefix("wrote ")?.parse::<u64>().unwrap();
            (number >= 5 * round).then_some(number)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = acknowledged.unwrap();

        let mut batches = 0;
        loop {
            let host = |at: u64| pattern(&format!("r{round}-b{batches}-{at}.example"));
            let hosts: Vec<_> = (0..BATCH).map(host).collect();
            match store.hosts(&hosts).await.unwrap().len() as u64 {
                0 => break,
                whole => assert_eq!(whole, BATCH, "batch {batches}"),
            }
            batches += 1;
        }
        assert!(batches > acknowledged, "an acknowledged batch is lost");
        // The next one goes on.
        store
            .write(Batch::unchecked(host_with("after.example", round, sealed)))
            .await
            .unwrap();
    }
}

/// A killed process loses nothing that it gave to the kernel. Only a sync takes
/// it to the disk, where it outlives the machine.
#[test]
fn a_batch_is_synced_before_it_is_acknowledged() {
    let folder = Folder::new();
    drop(folder.create());
    let shim = folder.0.path().join("syncs.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/shim/syncs.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&shim)
        .arg(source)
        .status();
    assert!(built.unwrap().success(), "cc can't build {source}");
    let mut child = child("writes_until_killed", &folder.path())
        .env("SEKISHO_TEST_ROUND", "1")
        .env("LD_PRELOAD", &shim)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut synced, mut batches) = (0, 0);
    for line in lines.map(|line| line.unwrap()) {
        if line.starts_with("synced ") && line.ends_with("hosts.db-wal") {
            synced += 1;
        } else if line.starts_with("wrote ") {
            assert!(
                synced > 0,
                "batch {batches} was acknowledged without a sync"
            );
            (synced, batches) = (0, batches + 1);
        }
        if batches == 10 {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(batches, 10);
}

const BATCH: u64 = 50;

#[tokio::test]
#[ignore = "a child of another test"]
async fn writes_until_killed() {
    let store = Sqlite::open(&given_path(), Mode::Existing).unwrap();
    let round = env::var("SEKISHO_TEST_ROUND").unwrap();
    for batch in 0_u64.. {
        let hosts = (0..BATCH).flat_map(|at| {
            let number = round.parse::<u64>().unwrap() << 40 | batch << 20 | at;
            host_with(&format!("r{round}-b{batch}-{at}.example"), number, sealed)
        });
        store
            .write(Batch::unchecked(hosts.collect()))
            .await
            .unwrap();
        println!("wrote {batch}");
    }
}

/// Runs the child as nobody where the tests run as root, who may write anything.
#[test]
fn a_read_only_file_is_said_to_be_one() {
    const NOBODY: u32 = 65534;
    let folder = Folder::new();
    drop(folder.create());
    let path = folder.path();
    let readable = |path: &Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).unwrap();
    };
    readable(&path, 0o444);
    readable(folder.0.path(), 0o555);
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&path).unwrap());
    let mut command = child("says_that_it_is_read_only", &path);
    if owner == 0 {
        command.uid(NOBODY);
    }
    let output = command.output().unwrap();
    readable(folder.0.path(), 0o755);
    let text = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{why}"
    );
}

#[test]
#[ignore = "a child of another test"]
fn says_that_it_is_read_only() {
    for mode in [Mode::Existing, Mode::Create] {
        let error = Sqlite::open(&given_path(), mode).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("can't be written"), "{text}");
        assert!(text.contains("hosts.db"), "{text}");
    }
}
