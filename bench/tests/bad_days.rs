//! Bad days of the evaluation: what a user sees of them. Each test has doubles of peers, which
//! are scripts around the real nginx.

#![allow(clippy::unwrap_used)]

#[path = "bad_days/day.rs"]
mod day;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};
use sekisho_bench::accounting::tree;
use sekisho_testkit::{Key, TestCa};

use self::day::{Day, Ended};

/// The smallest row: each server starts with one host.
const START: [&str; 3] = ["preload", "--rows", "ecdsa-1"];
const WITHOUT: &str = "--without=apache,caddy,haproxy,nginx-1.28";

#[test]
fn a_missing_peer_is_named_and_fails_unless_it_may_be_missing() {
    if !has_root() {
        return;
    }
    let day = Day::new();
    let ended = day.run(&START);
    assert_eq!(ended.code, Some(1));
    let named = "1 parts, 3 cases, 0 failed, 4 left out: Apache: it is not installed; \
                 Caddy: it is not installed; HAProxy: it is not installed; \
                 nginx 1.28: it is not installed";
    assert_eq!(ended.last_line, named);
    assert!(
        ended
            .errors
            .contains("install it, or leave it out by --without")
    );
    let report = day.report("preload");
    assert!(report.contains("Left out: HAProxy: it is not installed."));
    assert!(report.starts_with("# Start-up, reload and memory against the number of hosts\n"));
    assert!(report.contains("sekisho-bench paper --quick --work work --out out --sekisho "));
    let kept = day.kept("preload/ecdsa-1");
    let labels = kept["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| &case["label"]);
    assert_eq!(
        labels.collect::<Vec<_>>(),
        ["nginx", "sekisho", "sekisho, files"]
    );
    for case in kept["cases"].as_array().unwrap() {
        let machine = &case["machine"][0];
        assert!(machine["load"].is_number() && machine["stolen_percent"].is_number());
        assert!(machine["signature_us"].as_f64().unwrap() > 0.0, "{machine}");
    }
    let again = day.run(&[&START[..], &[WITHOUT]].concat());
    assert_eq!(again.code, Some(0));
    assert_eq!(again.last_line, named);
    assert!(again.errors.contains("ecdsa-1: measured already"));
}

#[test]
fn the_list_of_a_part_has_its_rows() {
    let list = Ended::of(Day::new().command(&["stuck", "--list"]));
    assert_eq!((list.code, &*list.last_line), (Some(0), "  stuck-files"));
    let list = Ended::of(Day::new().command(&["--list"]));
    assert_eq!(list.code, Some(0));
    assert!(list.last_line.starts_with("others "), "{}", list.last_line);
}

#[test]
fn a_peer_that_does_not_start_fails_alone() {
    if !has_root() {
        return;
    }
    let day = Day::new();
    day.double("apache2", "echo 'a module is missing' >&2; exit 1");
    let ended = day.run(&[&START[..], &["--without", "caddy,haproxy,nginx-1.28"]].concat());
    assert_eq!(ended.code, Some(1));
    let failed = "1 parts, 4 cases, 1 failed, 3 left out: Caddy: it is not installed; \
                  HAProxy: it is not installed; nginx 1.28: it is not installed";
    assert_eq!(ended.last_line, failed);
    let error = |label| day.error("preload/ecdsa-1", label);
    let apache = error("Apache").unwrap();
    assert!(
        apache.contains("ended at start (exit status: 1)"),
        "{apache}"
    );
    let (_, log) = apache.split_once("it wrote ").unwrap();
    assert_eq!(
        fs::read_to_string(day.path(log)).unwrap(),
        "a module is missing\n"
    );
    for well in ["nginx", "sekisho", "sekisho, files"] {
        assert_eq!(error(well), None);
    }
    assert!(
        day.report("preload")
            .contains("\nApache failed: ended at start")
    );
}

#[test]
fn a_peer_that_never_listens_or_answers_otherwise_fails_alone() {
    if !has_root() {
        return;
    }
    let certificate = || {
        let day = Day::new();
        let pair = TestCa::new().issue(&["h0.example.test"], Key::P256);
        fs::write(day.path("other.crt"), pair.chain_pem()).unwrap();
        fs::write(day.path("other.key"), pair.key_pem()).unwrap();
        let other = day.path("other").display().to_string();
        let edit = format!(
            "sed -i 's|ssl_certificate .*|ssl_certificate {other}.crt;|; \
             s|ssl_certificate_key .*|ssl_certificate_key {other}.key;|' \"$last\""
        );
        (
            day,
            edit,
            "(handshake: invalid peer certificate: UnknownIssuer)",
        )
    };
    let page = || {
        let day = Day::new();
        fs::create_dir(day.path("www")).unwrap();
        fs::write(day.path("www/index.html"), "Welcome to nginx!\n").unwrap();
        let root = day.path("www").display().to_string();
        let edit = format!("sed -i 's|root .*|root {root};|' \"$last\"");
        (day, edit, "(response: another page)")
    };
    let silence = || (Day::new(), "exec sleep 600".to_owned(), "(connect: ");
    let check = |(day, edit, reason): (Day, String, &str)| {
        day.double("nginx", &format!("{edit}\nexec $REAL \"$@\""));
        let ended = day.run(&[&START[..], &[WITHOUT]].concat());
        assert_eq!(ended.code, Some(1));
        assert!(ended.last_line.starts_with("1 parts, 3 cases, 1 failed, "));
        let error = day.error("preload/ecdsa-1", "nginx").unwrap();
        assert!(
            error.contains("does not serve the page after 20 s"),
            "{error}"
        );
        assert!(error.contains(reason), "{error}");
        assert_eq!(day.error("preload/ecdsa-1", "sekisho"), None);
    };
    // Most of the time is their bound of 20 s.
    thread::scope(|scope| {
        scope.spawn(|| check(certificate()));
        scope.spawn(|| check(page()));
        scope.spawn(|| check(silence()));
    });
}

#[test]
fn a_peer_that_dies_in_the_middle_of_a_case_is_named() {
    if !has_root() {
        return;
    }
    let day = Day::new();
    day.double(
        "nginx",
        "$REAL \"$@\" & master=$!; sleep 2\n\
         kill -KILL $(cat /proc/$master/task/$master/children) $master; exit 1",
    );
    let ended = day.run(&["stuck", "--rows", "stuck-files", WITHOUT]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.last_line.starts_with("1 parts, 1 cases, 1 failed, "),
        "{}",
        ended.last_line
    );
    let error = day
        .error("stuck/stuck-files", "nginx, file name by variable")
        .unwrap();
    assert!(
        error.contains("the server ended in the middle of the case; it wrote "),
        "{error}"
    );
}

#[test]
fn a_case_whose_rounds_differ_is_measured_again_and_marked() {
    if !has_root() {
        return;
    }
    let day = Day::new();
    // Every second start takes a second more.
    day.double(
        "nginx",
        "if [ -e \"$0.slow\" ]; then rm -f \"$0.slow\"; sleep 1; else : >\"$0.slow\"; fi\n\
         exec $REAL \"$@\"",
    );
    let ended = day.run(&[&START[..], &[WITHOUT, "--rounds", "2"]].concat());
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.errors.matches("rounds differ: nginx").count(), 2);
    let kept = day.kept("preload/ecdsa-1");
    let unsteady = kept["unsteady"].as_array().unwrap();
    assert!(
        unsteady.iter().any(|label| label == "nginx"),
        "{unsteady:?}"
    );
    let mark = "\necdsa-1, nginx: its rounds differ by more than a quarter.\n";
    assert!(day.report("preload").contains(mark));
}

#[test]
fn too_little_memory_or_disk_is_found_before_a_part_begins() {
    let day = Day::new();
    let short = day.command_by(&["prlimit", "--as=900000000"], &START);
    let ended = Ended::of(short);
    assert_eq!(ended.code, Some(1));
    let said = "858 MiB of memory are free, and the part preload needs 1024 MiB; \
                end other programs, or name the parts that fit";
    assert!(ended.errors.contains(said), "{}", ended.errors);
    assert!(!day.path("out/preload").exists(), "a row was measured");
    let day = Day::new();
    let mount = "mkdir work && mount -t tmpfs -o size=64m none work && exec \"$@\"";
    let namespace = ["unshare", "-rm", "sh", "-c", mount, "sh"];
    if may_mount() {
        let ended = Ended::of(day.command_by(&namespace, &START));
        assert_eq!(ended.code, Some(1));
        let said = "work has 63 MiB left, and the parts need 511 MiB; name another folder";
        assert!(ended.errors.contains(said), "{}", ended.errors);
    }
    assert!(!day.path("out/preload").exists(), "a row was measured");
}

#[test]
fn a_killed_run_goes_on_and_leaves_no_server() {
    if !has_root() {
        return;
    }
    let day = Day::new();
    let arguments = ["stuck", "--rows", "hook-stuck,stuck-files", WITHOUT];
    for server in ["hook-stuck-0", "stuck-files-0"] {
        let log = day.path("work/logs").join(format!("{server}-client.log"));
        kill_when(&day, &arguments, || log.exists());
        assert!(log.exists());
    }
    let kept = fs::read(day.path("out/stuck/hook-stuck.json")).unwrap();
    let ended = day.run(&arguments);
    assert_eq!(ended.code, Some(0));
    assert!(ended.errors.contains("hook-stuck: measured already"));
    assert!(!ended.errors.contains("stuck-files: measured already"));
    assert_eq!(
        fs::read(day.path("out/stuck/hook-stuck.json")).unwrap(),
        kept
    );
}

#[test]
fn a_run_killed_at_any_point_leaves_nothing_half_written() {
    if !has_root() {
        return;
    }
    let day = Day::new();
    let arguments = ["preload", "--rows", "ecdsa-1,ecdsa-2", WITHOUT];
    for millis in [60, 150, 300, 500, 700, 1_000] {
        let begun = Instant::now();
        kill_when(&day, &arguments, || begun.elapsed().as_millis() > millis);
    }
    fs::create_dir_all(day.path("out/preload")).unwrap();
    fs::write(day.path("out/preload/ecdsa-2.begun"), "{").unwrap();
    let ended = day.run(&arguments);
    assert_eq!(ended.code, Some(0));
    assert!(
        ended
            .last_line
            .starts_with("1 parts, 6 cases, 0 failed, 4 left out: ")
    );
}

/// Starts a run and kills it once `is_time`; fails if a process of it goes on.
fn kill_when(day: &Day, arguments: &[&str], is_time: impl Fn() -> bool) {
    let mut command = day.command(arguments);
    let mut run = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("it is time", || {
        is_time() || run.try_wait().unwrap().is_some()
    });
    // A program may be on its way into its own process.
    sleep(Duration::from_millis(20));
    let family = tree(run.id()).unwrap_or_default();
    run.kill().unwrap();
    run.wait().unwrap();
    // A zombie has no executable.
    let lives = |pid: &u32| Path::new(&format!("/proc/{pid}/exe")).read_link().is_ok();
    until("all its processes end", || !family.iter().any(lives));
}

fn until(what: &str, is_so: impl FnMut() -> bool) {
    let mut is_so = is_so;
    let begun = Instant::now();
    while !is_so() {
        assert!(
            begun.elapsed() < Duration::from_secs(40),
            "{what}: not in time"
        );
        sleep(Duration::from_millis(2));
    }
}

/// Tells whether this test may run: without root, the memory of sekisho can't be read. A
/// container may forbid it even to root.
fn has_root() -> bool {
    let left_out = std::env::var_os("SEKISHO_TEST_WITHOUT").is_some_and(|what| what == "root");
    assert!(
        geteuid().is_root() || left_out,
        "this test needs root; leave it out with SEKISHO_TEST_WITHOUT=root"
    );
    let own = capabilities(None);
    let may = own.is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_PTRACE));
    if !may {
        println!("left out: memory of other processes can't be read");
    }
    may
}

/// Tells whether this user may mount a small file system in a namespace. A container may
/// forbid it even to root.
fn may_mount() -> bool {
    let made = Command::new("unshare").args(["-rm", "true"]).status();
    let may = made.is_ok_and(|status| status.success());
    if !may {
        println!("left out: a disk that is too small, since namespaces are forbidden");
    }
    may
}
