//! Tests watches of imports beside outages, refusals and signals.

use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use data_encoding::BASE64;
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::process::{Pid, Signal, kill_process};
use sekisho_testkit::Pair;

use crate::import_secrets::{strange_entries, tells_no_key};
use crate::import_watch::{end, has, until_year, watch};
use crate::sandbox::{Ran, SOON, Sandbox, until};

/// Writes a file in one step.
fn put(sandbox: &Sandbox, file: &str, text: &str) {
    sandbox.write("new", text);
    fs::rename(sandbox.path("new"), sandbox.path(file)).expect("a folder");
}

/// Begins to watch whether a file is read.
fn reads_of(file: &Path) -> impl Fn() -> bool {
    let queue = inotify::init(CreateFlags::NONBLOCK).expect("a queue");
    inotify::add_watch(&queue, file, WatchFlags::ACCESS).expect("a watch");
    move || {
        let mut buffer = [MaybeUninit::uninit(); 512];
        Reader::new(&queue, &mut buffer).next().is_ok()
    }
}

#[test]
fn a_refusal_that_stays_is_tried_twice_and_has_nothing_read_again() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("pairs")).expect("a folder");
    for host in ["a.example", "b.example"] {
        let pair = until_year(host, 2080);
        let bundle = pair.key_pem() + &pair.chain_pem();
        put(&sandbox, &format!("pairs/{host}.pem"), &bundle);
    }
    let watcher = watch(&sandbox, "pairs", &["--prune", "--every", "1s"]);
    has(&sandbox, "b.example", 2080);
    put(&sandbox, "pairs/cut.pem", "cut");
    fs::remove_file(sandbox.path("pairs/b.example.pem")).expect("a file");
    // The round that is refused, and one more try.
    thread::sleep(Duration::from_secs(6));
    let file = sandbox.path("pairs/a.example.pem");
    let is_read = reads_of(&file);
    thread::sleep(Duration::from_secs(4));
    assert!(!is_read(), "all pairs are read each second");
    fs::read(&file).expect("a file");
    assert!(is_read(), "a read is not noticed");
    assert!(sandbox.ok(&["host", "list"]).contains("b.example"));
    let ran = end(watcher);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    // Each try is told.
    let told = ran.err.matches("which was refused, are unknown").count();
    assert!((1..=2).contains(&told), "{}", ran.err);
}

/// The files are as they were, but the kernel has forgotten their folders.
#[test]
fn folders_are_watched_again_after_an_outage() {
    let sandbox = Sandbox::new();
    let files = ["fullchain.pem", "privkey.pem"];
    let write = |folder: &str, pair: &Pair| {
        for (file, text) in files.iter().zip([pair.chain_pem(), pair.key_pem()]) {
            sandbox.write(&format!("{folder}/{file}"), &text);
        }
    };
    let link = |from: &str, to: &str| {
        for file in files {
            let target = sandbox.path(&format!("{to}/{file}"));
            symlink(target, sandbox.path("new")).expect("a link");
            let at = sandbox.path(&format!("{from}/{file}"));
            fs::rename(sandbox.path("new"), at).expect("a folder");
        }
    };
    write("real/a", &until_year("a.example", 2080));
    write("real/b", &until_year("b.example", 2080));
    write("other/a", &until_year("a.example", 2081));
    let lineage = |folder: &str, name: &str| {
        let live = format!("{folder}/live/{name}.example");
        fs::create_dir_all(sandbox.path(&live)).expect("a folder");
        link(&live, &format!("real/{name}"));
    };
    lineage("le", "a");
    let mut command = sandbox.command(&["cert", "import", "le", "--watch", "--every", "10m"]);
    let log = sandbox.path("log");
    let command = command.stderr(File::create(&log).expect("a file"));
    let watcher = command
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary runs");
    has(&sandbox, "a.example", 2080);
    fs::rename(sandbox.path("le"), sandbox.path("gone")).expect("a folder");
    until("the outage is told", SOON, || {
        let log = fs::read_to_string(&log).expect("a log");
        log.contains("the sources are still watched")
    });
    fs::remove_dir_all(sandbox.path("gone")).expect("a folder");
    lineage("next", "a");
    lineage("next", "b");
    fs::rename(sandbox.path("next"), sandbox.path("le")).expect("a folder");
    has(&sandbox, "b.example", 2080);
    // The round ends.
    thread::sleep(Duration::from_secs(1));
    link("le/live/a.example", "other/a");
    has(&sandbox, "a.example", 2081);
    assert_eq!(end(watcher).code, Some(0));
}

#[test]
fn many_refusals_of_one_file_hold_up_no_renewal_and_tell_no_key() {
    // More than an import holds. Imports run at the lowest priority: beside other tests, 50,000 took
    // longer than is waited for.
    const REFUSED: usize = 15_000;
    let sandbox = Sandbox::new();
    let write = |year: i32| {
        let pair = until_year("a.example", year);
        let halves = [pair.chain_pem(), pair.key_pem()];
        let [chain, key] = halves.map(|half| BASE64.encode(half.as_bytes()));
        let good = format!(r#"{{"certificate":"{chain}","key":"{key}"}}"#);
        let strange = strange_entries(&pair).join(",");
        let empty = "{},".repeat(REFUSED);
        let document = format!(r#"{{"Certificates":[{empty}{strange},{good}]}}"#);
        put(&sandbox, "acme.json", &document);
        pair
    };
    let first = write(2080);
    let watcher = watch(&sandbox, "acme.json", &["--every", "1s"]);
    has(&sandbox, "a.example", 2080);
    let second = write(2081);
    has(&sandbox, "a.example", 2081);
    let ran = end(watcher);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("refused: "), "{}", ran.err);
    for pair in [first, second] {
        tells_no_key(&pair, &(ran.out.clone() + &ran.err));
    }
}

/// Name of a list, and one of its lines: all have one pair.
const LIST: &str = "list.csv";

fn line(number: u32) -> String {
    format!("all.crt,all.key,h{number}.a.example\n")
}

/// Makes a list of hosts, and a store with a host of its own.
fn listed(hosts: u32) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok(&["host", "set", "first.example"]);
    renew(&sandbox, 2080);
    let lines: String = (0..hosts).map(line).collect();
    put(&sandbox, LIST, &lines);
    sandbox
}

/// Writes the pair of all lines.
fn renew(sandbox: &Sandbox, year: i32) {
    let pair = until_year("*.a.example", year);
    sandbox.write("all.crt", &pair.chain_pem());
    sandbox.write("all.key", &pair.key_pem());
}

/// Counts the hosts of lists that are stored.
fn stored(sandbox: &Sandbox) -> u32 {
    let store = rusqlite::Connection::open(sandbox.path("hosts.db")).expect("a store");
    let count = "SELECT count(*) - 1 FROM hosts";
    store.query_row(count, [], |row| row.get(0)).expect("hosts")
}

/// Sends a signal to a watcher in the middle of a round; expects that this ends it, and that
/// another one can begin at once.
fn ends_by(sandbox: &Sandbox, watcher: Child, signal: Signal) -> Ran {
    kill_process(Pid::from_child(&watcher), signal).expect("it runs");
    let ran = Ran::of(&watcher.wait_with_output().expect("it ends"));
    put(sandbox, LIST, &line(0));
    renew(sandbox, 2081);
    let watcher = watch(sandbox, LIST, &[]);
    has(sandbox, "h0.a.example", 2081);
    assert_eq!(end(watcher).code, Some(0));
    ran
}

#[test]
fn signals_end_a_round() {
    const HOSTS: u32 = 20_000;
    for signal in [Signal::INT, Signal::TERM] {
        let sandbox = listed(HOSTS);
        let watcher = watch(&sandbox, LIST, &[]);
        until("the first batch", SOON, || stored(&sandbox) > 0);
        let ran = ends_by(&sandbox, watcher, signal);
        assert_eq!(ran.code, Some(130), "{signal:?}: {}{}", ran.out, ran.err);
        let told = "what was stored stays, run it again to go on: interrupted";
        assert!(ran.err.contains(told), "{}", ran.err);
        let stored = stored(&sandbox);
        assert!(stored < HOSTS, "{signal:?}: the round went on");
    }
}

#[test]
fn signals_end_a_removal() {
    const HOSTS: u32 = 10_000;
    for signal in [Signal::INT, Signal::TERM] {
        let sandbox = listed(HOSTS);
        sandbox.ok(&["cert", "import", LIST]);
        assert_eq!(stored(&sandbox), HOSTS);
        put(&sandbox, LIST, &line(0));
        let watcher = watch(&sandbox, LIST, &["--prune", "--prune-at-most", "10000"]);
        until("the first removal", SOON, || stored(&sandbox) < HOSTS);
        let ran = ends_by(&sandbox, watcher, signal);
        let stored = stored(&sandbox);
        assert!(stored > 1, "{signal:?}: the removal went on");
        assert!(ran.err.contains("interrupted"), "{}", ran.err);
        assert!(ran.out.contains("removed "), "{}", ran.out);
        // The removal is the end of the round.
        let is_ended = matches!(ran.code, Some(0 | 130));
        assert!(is_ended, "{signal:?}: {:?}", ran.code);
    }
}
