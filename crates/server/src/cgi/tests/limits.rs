//! Limits on programs.

use super::*;

/// Reads the output of a program without a body, and with so many milliseconds, until it fails.
async fn failure(lines: &str, milliseconds: u64) -> Failure {
    let script = Script::new(lines);
    let mut job = script.job();
    job.total = Duration::from_millis(milliseconds);
    let running = start(&Programs::new(AT_ONCE), job).await.unwrap();
    all(running).await.unwrap_err()
}

#[tokio::test]
async fn the_time_of_a_program_ends_it() {
    let failed = failure("exec /bin/sleep 100", 200).await;
    assert!(matches!(failed, Failure::Total), "{failed}");
    // Bytes come all the time, and the program ignores the first signal.
    let writes = "trap '' TERM; while :; do echo; /bin/sleep 0.01; done";
    let begun = Instant::now();
    let failed = failure(writes, 500).await;
    assert!(matches!(failed, Failure::Total), "{failed}");
    assert!(begun.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn the_time_is_over_while_nobody_reads() {
    let script = Script::new("echo $$; while :; do echo more; done");
    let mut job = script.job();
    job.total = Duration::from_millis(500);
    let mut running = start(&Programs::new(AT_ONCE), job).await.unwrap();
    let piece = piece(&mut running).await.unwrap().unwrap();
    let pid = String::from_utf8_lossy(&piece)
        .lines()
        .next()
        .unwrap()
        .to_owned();
    all_end(&pid).await;
    let failure = all(running).await.unwrap_err();
    assert!(matches!(failure, Failure::Total), "{failure}");
}

#[tokio::test]
async fn standard_error_does_not_stop_a_program() {
    let lines = "/usr/bin/head -c 900000 /dev/zero >&2; echo answer";
    assert_eq!(Script::run(lines).await.unwrap(), "answer\n");
}

#[tokio::test]
async fn endless_standard_error_ends_a_program() {
    let found = failure("exec /bin/cat /dev/zero >&2", 60_000).await;
    assert!(matches!(found, Failure::Complaint), "{found}");
}

#[tokio::test]
async fn output_is_read_in_pieces() {
    let script = Script::new("exec /usr/bin/head -c 1000000 /dev/zero");
    let mut running = script.start().await;
    let mut read = 0;
    while let Some(piece) = piece(&mut running).await.unwrap() {
        assert!(piece.len() <= 16 << 10);
        read += piece.len();
    }
    assert_eq!(read, 1_000_000);
}

#[tokio::test]
async fn a_tenant_with_programs_that_hang_delays_no_other() {
    let (hangs, answers) = (
        Script::new("exec /bin/sleep 100"),
        Script::new("echo answer"),
    );
    let [hung, well] = ["hung", "well"].map(|name| Tenant::parse(name).unwrap());
    let programs = &Programs::new(AT_ONCE);
    let start = |script: &Script, tenant: &Tenant, of, until| {
        let (job, tenant) = (script.job(), tenant.clone());
        async move { programs.start(job, (&tenant, client(of)), until).await }
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
        assert_eq!(all(running).await.unwrap(), "answer\n");
    }
    held.pop();
    start(&hangs, &hung, 3, soon(20)).await.unwrap();
}

#[tokio::test]
async fn all_tenants_share_the_total() {
    let script = Script::new("exec /bin/sleep 100");
    let programs = Programs::new(1);
    let _held = start(&programs, script.job()).await.unwrap();
    let tenant = Tenant::parse("other").unwrap();
    let until = Instant::now() + Duration::from_millis(50);
    let refused = programs.start(script.job(), (&tenant, client(1)), until);
    let refused = refused.await.unwrap_err();
    assert!(matches!(refused, StartError::Late), "{refused}");
}
