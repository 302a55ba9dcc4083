//! Programs in the convention of lego's `exec`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use sekisho_issuance::solver::dns01::{Dns01, Exec, Fault, Waits, Writer};
use sekisho_testkit::services::Knot;

use super::{knot, presented, settings};

/// The value that programs here would write is in the zone already.
const RECORD: &str = "_acme-challenge.a TXT x";

fn solver(knot: &Knot, folder: &Path, script: &str, deadline: Duration) -> Dns01 {
    let program = folder.join("dns");
    fs::write(
        &program,
        format!("#!/bin/sh\ncd '{}'\n{script}\n", folder.display()),
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let exec = Exec::new(program, vec!["CARGO_MANIFEST_DIR".into()]);
    let mut settings = settings(knot, Writer::Exec(exec));
    settings.deadline = deadline;
    Dns01::new(settings, Waits::default())
}

#[tokio::test]
async fn a_program_is_told_what_to_do_and_no_secrets() {
    let (knot, folder) = (knot(RECORD), tempfile::tempdir().unwrap());
    let script = "echo \"$# $1 $2 $3\" >>said; env >env; yes | head -c 1000000 >&2";
    let solver = solver(&knot, folder.path(), script, super::PATIENCE);
    solver.present(&presented("x")).await.unwrap();
    solver.clean_up(&presented("x")).await.unwrap();
    let said = fs::read_to_string(folder.path().join("said")).unwrap();
    let expected = "3 present _acme-challenge.a.example.test. x\n\
                    3 cleanup _acme-challenge.a.example.test. x\n";
    assert_eq!(said, expected);
    let env = fs::read_to_string(folder.path().join("env")).unwrap();
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok());
    assert!(
        !env.contains("CARGO_MANIFEST_DIR=") && env.contains("PATH="),
        "{env}"
    );
}

#[tokio::test]
async fn a_program_that_fails_says_why_in_one_line() {
    let (knot, folder) = (knot(RECORD), tempfile::tempdir().unwrap());
    let failing = |script: &str| solver(&knot, folder.path(), script, super::PATIENCE);
    for (script, expected) in [
        ("exit 3", "dns cleanup: exit status: 3"),
        (
            "echo one >&2; printf '\\033[31mno such zone\\n\\n' >&2; exit 1",
            "dns cleanup: exit status: 1: [31mno such zone",
        ),
        (
            "echo secret; kill -9 $$",
            "dns cleanup: signal: 9 (SIGKILL)",
        ),
    ] {
        let error = failing(script).clean_up(&presented("x")).await.unwrap_err();
        assert!(matches!(error.fault, Fault::Refused(_)), "{error}");
        assert!(error.to_string().ends_with(expected), "{error}");
    }
    let script = "yes | tr -d '\\n' | head -c 100000 >&2; exit 1";
    let error = failing(script).present(&presented("x")).await.unwrap_err();
    assert!(error.to_string().len() < 500, "{error}");
    fs::remove_file(folder.path().join("dns")).unwrap();
    let exec = Exec::new(folder.path().join("dns"), Vec::new());
    let gone = Dns01::new(settings(&knot, Writer::Exec(exec)), Waits::default());
    let error = gone.present(&presented("x")).await.unwrap_err().to_string();
    assert!(error.contains("No such file"), "{error}");
}

#[tokio::test]
async fn a_program_that_hangs_is_killed() {
    let (knot, folder) = (knot(RECORD), tempfile::tempdir().unwrap());
    let script = "echo $$ >pid; exec sleep 600";
    let solver = solver(&knot, folder.path(), script, Duration::from_secs(2));
    let begun = Instant::now();
    let error = solver.present(&presented("x")).await.unwrap_err();
    assert!(matches!(error.fault, Fault::Unreachable(_)), "{error}");
    assert!(
        error.to_string().ends_with("dns: not done within 2 s"),
        "{error}"
    );
    assert!(begun.elapsed() < Duration::from_secs(60));
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    let process = format!("/proc/{}/cmdline", pid.trim());
    // A zombie has no command line; the runtime reaps it later.
    while fs::read_to_string(&process).is_ok_and(|line| line.contains("sleep")) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{process}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn programs_run_one_after_the_other() {
    let (knot, folder) = (knot(RECORD), tempfile::tempdir().unwrap());
    // Fails if another one is under way.
    let script = "mkdir lock && sleep 0.05 && rmdir lock";
    let solver = solver(&knot, folder.path(), script, super::PATIENCE);
    let record = presented("x");
    let run = || solver.clean_up(&record);
    let (one, two, three) = tokio::join!(run(), run(), run());
    for done in [one, two, three] {
        done.unwrap();
    }
}
