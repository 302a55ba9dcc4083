//! How programs end.

use super::*;

use futures_util::FutureExt as _;
use tokio::io::AsyncWriteExt;

/// Reads one line of process ids.
async fn pids(running: &mut Running) -> String {
    let mut text = String::new();
    while !text.ends_with('\n') {
        let piece = piece(running).await.unwrap().expect("a line");
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    text
}

#[tokio::test]
async fn a_body_is_echoed() {
    let script = Script::new("exec /bin/cat");
    let mut running = script.start().await;
    let mut input = running.input.take().unwrap();
    let body = "0123456789abcdef".repeat(64 << 10);
    let write = async {
        input.write_all(body.as_bytes()).await.unwrap();
        drop(input);
    };
    let (read, ()) = tokio::join!(all(running), write);
    assert!(read.unwrap() == body);
}

#[tokio::test]
async fn a_body_that_is_not_read_ends_no_answer() {
    let script = Script::new("echo answer; exec <&-; /bin/sleep 0.1; echo more");
    let mut running = script.start().await;
    let mut input = running.input.take().unwrap();
    let write = async {
        let broken = input.write_all(&vec![0; 1 << 30]).await.unwrap_err();
        assert_eq!(broken.kind(), io::ErrorKind::BrokenPipe);
    };
    let (read, ()) = tokio::join!(all(running), write);
    assert_eq!(read.unwrap(), "answer\nmore\n");
}

#[tokio::test]
async fn dropping_the_output_ends_the_program_and_its_children() {
    let script = Script::new("/bin/sleep 100 & /bin/sleep 100 & echo $$ $! $(jobs -p); wait");
    let programs = Programs::new(AT_ONCE);
    let mut running = start(&programs, script.job()).await.unwrap();
    let pids = pids(&mut running).await;
    assert!(pids.split_whitespace().all(runs), "{pids}");
    let begun = Instant::now();
    drop(running);
    all_end(&pids).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    while programs.running.used() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // No zombie is left.
    let leader = pids.split_whitespace().next().unwrap();
    assert!(!Path::new("/proc").join(leader).exists());
}

#[tokio::test]
async fn a_program_that_ignores_sigterm_is_killed() {
    let lines = "trap '' TERM; /bin/sleep 100 & echo $$ $!; while :; do wait; done";
    let script = Script::new(lines);
    let mut running = script.start().await;
    let pids = pids(&mut running).await;
    let begun = Instant::now();
    drop(running);
    all_end(&pids).await;
    let took = begun.elapsed();
    assert!((1900..4000).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test]
async fn a_program_that_forks_on_is_killed() {
    let script = Script::new(
        "trap '' TERM; echo $$; fork() { /bin/sleep 0.05; fork & }; fork & while :; do wait; done",
    );
    let mut running = script.start().await;
    let group = pids(&mut running).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(running);
    let group = group.trim().to_owned();
    let members = || {
        let stats = fs::read_dir("/proc").unwrap().flatten();
        let stats = stats.filter_map(|pid| fs::read_to_string(pid.path().join("stat")).ok());
        let of_group = stats.filter(|stat| {
            let mut fields = stat.rsplit_once(") ").unwrap().1.split(' ');
            fields.next() != Some("Z") && fields.nth(1) == Some(&group)
        });
        of_group.count()
    };
    assert!(members() > 0);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(members(), 0);
}

#[tokio::test]
async fn output_ends_with_the_last_process_that_holds_it() {
    let text = Script::run("(/bin/sleep 3; echo end) & echo begin").await;
    assert_eq!(text.unwrap(), "begin\nend\n");
}

#[tokio::test]
async fn output_that_a_descendant_holds_for_too_long_is_not_complete() {
    let script = Script::new("/bin/sleep 100 & echo $!");
    let mut job = script.job();
    job.total = Duration::from_secs(1);
    let mut running = start(&Programs::new(AT_ONCE), job).await.unwrap();
    let pids = pids(&mut running).await;
    let failure = all(running).await.unwrap_err();
    assert!(matches!(failure, Failure::Total), "{failure}");
    all_end(&pids).await;
}

#[tokio::test]
async fn a_descendant_without_the_pipes_ends_with_its_program() {
    let text = Script::run("/bin/sleep 100 >/dev/null 2>&1 </dev/null & echo $!").await;
    all_end(&text.unwrap()).await;
}

#[tokio::test]
async fn an_answer_that_a_signal_cuts_off_is_not_complete() {
    let failure = Script::run("echo answer; kill -SEGV $$").await.unwrap_err();
    assert!(
        matches!(failure, Failure::Signal(libc::SIGSEGV)),
        "{failure}"
    );
    assert_eq!(
        Script::run("echo answer; exit 3").await.unwrap(),
        "answer\n"
    );
}

#[tokio::test]
async fn a_program_that_closes_its_output_has_answered() {
    let script = Script::new("echo $$; exec >&- ; exec /bin/sleep 100");
    let begun = Instant::now();
    let pids = all(script.start().await).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2));
    all_end(&pids).await;
}

#[tokio::test]
async fn a_start_that_nobody_waits_for_ends() {
    let script = Script::new("echo $$ >pid; exec /bin/sleep 100");
    let programs = Programs::new(AT_ONCE);
    let mut start = Box::pin(start(&programs, script.job()));
    assert!((&mut start).now_or_never().is_none());
    drop(start);
    while programs.running.used() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if let Ok(pid) = fs::read_to_string(script.path().join("pid")) {
        assert!(!runs(&pid));
    }
}

#[test]
fn programs_end_with_their_runtime() {
    let script = Script::new("/bin/sleep 100 & echo $$ $!; wait");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let pids = runtime.block_on(async {
        let mut running = script.start().await;
        pids(&mut running).await
    });
    drop(runtime);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(all_end(&pids));
}
