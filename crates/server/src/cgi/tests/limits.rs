//! Limits on programs.

use super::*;

use futures_util::FutureExt as _;
use tokio::io::AsyncWriteExt;

fn limits(milliseconds: [u64; 3]) -> Limits {
    let [first_byte, idle, total] = milliseconds.map(Duration::from_millis);
    Limits {
        first_byte,
        idle,
        total,
    }
}

/// Reads the output of a program without a body until it fails.
async fn failure(lines: &str, limits: Limits, has_head: bool) -> Failure {
    let script = Script::new(lines);
    let Running { input, mut output } = script.start(limits).await;
    drop(input);
    if has_head {
        output.note_head();
    }
    all(output).await.unwrap_err()
}

#[tokio::test]
async fn each_time_limit_ends_a_program() {
    let hangs = "exec /bin/sleep 100";
    let found = failure(hangs, limits([200, 60_000, 60_000]), false).await;
    assert!(matches!(found, Failure::FirstByte), "{found}");
    let found = failure(
        "echo; exec /bin/sleep 100",
        limits([60_000, 200, 60_000]),
        true,
    )
    .await;
    assert!(matches!(found, Failure::Idle), "{found}");
    // Bytes come all the time, and the program ignores the first signal.
    let writes = "trap '' TERM; while :; do echo; /bin/sleep 0.01; done";
    let begun = Instant::now();
    let found = failure(writes, limits([60_000, 60_000, 500]), true).await;
    assert!(matches!(found, Failure::Total), "{found}");
    assert!(begun.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn the_time_is_over_while_nobody_reads() {
    let script = Script::new("echo $$; while :; do echo more; done");
    let mut running = script.start(limits([60_000, 60_000, 500])).await;
    let piece = running.output.piece().await.unwrap().unwrap();
    let pid = String::from_utf8_lossy(&piece)
        .lines()
        .next()
        .unwrap()
        .to_owned();
    all_end(&pid).await;
    let failure = all(running.output).await.unwrap_err();
    assert!(matches!(failure, Failure::Total), "{failure}");
}

#[tokio::test]
async fn a_body_that_moves_puts_off_the_limit_on_the_head() {
    let script = Script::new("/bin/cat >/dev/null; echo answer");
    let Running { mut input, output } = script.start(limits([300, 60_000, 60_000])).await;
    let write = async {
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            input.write_all(&[0; 1024]).await.unwrap();
        }
        drop(input);
    };
    let (read, ()) = tokio::join!(all(output), write);
    assert_eq!(read.unwrap(), "answer\n");
}

#[tokio::test]
async fn a_body_that_is_not_read_puts_off_no_limit() {
    let script = Script::new("exec /bin/sleep 100");
    let Running { mut input, output } = script.start(limits([300, 60_000, 60_000])).await;
    let body = vec![0; 1 << 20];
    let written = async {
        let _ = input.write_all(&body).await;
    };
    let begun = Instant::now();
    tokio::select! {
        read = all(output) => assert!(matches!(read, Err(Failure::FirstByte))),
        () = written => panic!("the pipe holds 64 KiB"),
    }
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn standard_error_does_not_stop_a_program() {
    let lines = "/usr/bin/head -c 900000 /dev/zero >&2; echo answer";
    assert_eq!(Script::run(lines).await.unwrap(), "answer\n");
}

#[tokio::test]
async fn endless_standard_error_ends_a_program() {
    let found = failure("exec /bin/cat /dev/zero >&2", LONG, false).await;
    assert!(matches!(found, Failure::Complaint), "{found}");
}

#[tokio::test]
async fn output_is_read_in_pieces() {
    let script = Script::new("exec /usr/bin/head -c 1000000 /dev/zero");
    let mut output = script.start(LONG).await.output;
    let mut read = 0;
    while let Some(piece) = output.piece().await.unwrap() {
        assert!(piece.len() <= 16 << 10);
        read += piece.len();
    }
    assert_eq!(read, 1_000_000);
    assert!(matches!(output.piece().now_or_never(), Some(Ok(None))));
}

#[tokio::test]
async fn a_tenant_with_programs_that_hang_delays_no_other() {
    let (hangs, answers) = (
        Script::new("exec /bin/sleep 100"),
        Script::new("echo answer"),
    );
    let [hung, well] = ["hung", "well"].map(|name| Tenant::parse(name).unwrap());
    let programs = Programs::new(Most::default());
    let start = |script: &Script, tenant: &Tenant, of, until| {
        let (program, programs, tenant) = (script.program(), programs.clone(), tenant.clone());
        async move {
            let whose = ("a.example", &tenant, client(of));
            programs
                .start(program, Vec::new(), whose, LONG, until)
                .await
        }
    };
    let mut held = Vec::new();
    let late = || Instant::now() + Duration::from_millis(100);
    for of in [1, 2] {
        for _ in 0..8 {
            held.push(start(&hangs, &hung, of, soon(20)).await.unwrap());
        }
        // One client network has half of a tenant's.
        let refused = start(&hangs, &hung, of, late()).await.unwrap_err();
        assert!(matches!(refused, StartError::TenantBusy), "{refused}");
    }
    let refused = start(&hangs, &hung, 3, late()).await.unwrap_err();
    assert!(matches!(refused, StartError::TenantBusy), "{refused}");
    for _ in 0..3 {
        let running = start(&answers, &well, 1, soon(20)).await.unwrap();
        assert_eq!(all(running.output).await.unwrap(), "answer\n");
    }
    held.pop();
    start(&hangs, &hung, 3, soon(20)).await.unwrap();
}

#[tokio::test]
async fn all_tenants_share_the_total() {
    let script = Script::new("exec /bin/sleep 100");
    let most = Most {
        in_total: 1,
        of_tenant: 1,
    };
    let programs = Programs::new(most);
    let _held = script
        .start_with(&programs, Vec::new(), LONG)
        .await
        .unwrap();
    let tenant = Tenant::parse("other").unwrap();
    let until = Instant::now() + Duration::from_millis(50);
    let whose = ("a.example", &tenant, client(1));
    let refused = programs.start(script.program(), Vec::new(), whose, LONG, until);
    let refused = refused.await.unwrap_err();
    assert!(matches!(refused, StartError::Late), "{refused}");
}
