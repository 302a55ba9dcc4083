//! Tests when programs and their answers end.

use std::fs;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, Version};
use http_body_util::BodyExt;
use sekisho_testkit::client;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::cgi::{full, start};
use crate::world::{Answer, BOTH, HOST};

#[tokio::test]
async fn a_program_ends_with_its_client() {
    let program = "trap '' TERM; echo A: b; echo; echo $$; while :; do echo x; done";
    let world = start(&[("endless", 0o755, program)]);
    let mut client = world.connect(Version::HTTP_2, HOST).await;
    let begun = client
        .begin(Method::GET, "/cgi-bin/endless", &[], full(0))
        .await;
    let mut body = begun.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let pid = String::from_utf8_lossy(&first)
        .lines()
        .next()
        .unwrap()
        .to_owned();
    drop(body);
    let program = format!("/proc/{pid}/exe");
    until(|| fs::read_link(&program).is_err().then_some(())).await;
}

#[tokio::test]
async fn a_program_without_a_head_ends_with_its_client() {
    let program = "trap '' TERM; echo $$ > \"$QUERY_STRING\"; exec sleep 600";
    let world = start(&[("hung", 0o755, program)]);
    let noted = world.folder.path().join("pid");
    let path = format!("/cgi-bin/hung?{}", noted.display());
    let request = format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    let connector = TlsConnector::from(Arc::new(client::config(&world.ca)));
    let socket = TcpStream::connect(world.running.address).await.unwrap();
    // In one flight with the end of the handshake: session tickets wait for the answer.
    let connecting = connector.connect_with(HOST.try_into().unwrap(), socket, |tls| {
        tls.writer().write_all(request.as_bytes()).unwrap();
    });
    let connection = connecting.await.unwrap();
    let pid = || fs::read_to_string(&noted).ok();
    let pid = until(|| pid().filter(|pid| pid.ends_with('\n'))).await;
    drop(connection);
    let program = format!("/proc/{}/exe", pid.trim());
    until(|| fs::read_link(&program).is_err().then_some(())).await;
}

#[tokio::test]
async fn a_program_that_goes_on_behind_its_answer_is_not_cut_off() {
    let program = "cat >/dev/null; printf 'Content-Length: 4\\n\\nbody'; sleep 0.5; echo x >done";
    let world = start(&[("work", 0o755, program)]);
    let done = world.programs.path().join("done");
    for (version, method) in [
        (Version::HTTP_11, Method::GET),
        (Version::HTTP_11, Method::HEAD),
        (Version::HTTP_2, Method::HEAD),
    ] {
        let mut client = world.connect(version, HOST).await;
        let answer = client.send(method.clone(), "/cgi-bin/work", &[]).await;
        assert_eq!(answer.status, 200);
        until(|| done.exists().then_some(())).await;
        fs::remove_file(&done).unwrap();
    }
}

#[tokio::test]
async fn a_body_ends_with_the_last_process_that_writes_it() {
    // Longer than a program has for the rest of its work.
    let writes_on = "printf 'A: b\n\nbegin\n'; (sleep 3; echo end) &";
    let killed = "printf 'A: b\n\nbegin\n'; sleep 1 & sleep 0.2; kill -9 $$";
    let world = start(&[("on", 0o755, writes_on), ("killed", 0o755, killed)]);
    for version in BOTH {
        let answer = world.get(version, "/cgi-bin/on").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "begin\nend\n"));
        let mut client = world.connect(version, HOST).await;
        let begun = client.begin(Method::GET, "/cgi-bin/killed", &[], full(0));
        let answer = Answer::of(begun.await.unwrap()).await;
        assert!(answer.is_err(), "a body that breaks off looks complete");
    }
}

/// Waits until there is a value, 20 s at most.
async fn until<T>(mut value: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = value() {
            return value;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing changed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
