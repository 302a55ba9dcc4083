//! Tests the access log of the real binary.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use sekisho_testkit::client;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;

use crate::sandbox::{SOON, Sandbox, Server, ca, until, upstream};

fn sandbox(more: &str) -> (Sandbox, PathBuf) {
    let sandbox = Sandbox::new();
    sandbox.configure(&format!("[log]\naccess = \"access.log\"\n{more}"));
    sandbox.page("a.example", "page of a");
    sandbox.import(&["a.example"]);
    let path = sandbox.path("access.log");
    (sandbox, path)
}

/// Returns the lines once there are so many.
fn lines(path: &PathBuf, count: usize) -> Vec<String> {
    let read = || fs::read_to_string(path).unwrap_or_default();
    until("the lines are written", SOON, || {
        read().lines().count() >= count
    });
    let text = read();
    assert!(text.ends_with('\n'), "{text}");
    assert_eq!(text.lines().count(), count, "{text}");
    text.lines().map(str::to_owned).collect()
}

/// Sends requests over one connection, which the last one ends. Returns the
/// answers.
fn exchange(server: &Server, requests: &[u8]) -> String {
    let exchange = async {
        let config = client::config(ca());
        let mut stream = client::connect(server.https, "a.example", config).await?;
        stream.write_all(requests).await?;
        let mut answers = Vec::new();
        stream.read_to_end(&mut answers).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answers).into_owned())
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime
        .expect("a runtime")
        .block_on(exchange)
        .expect("answers")
}

/// Requests with what could break a line, of which the second is refused.
const REQUESTS: &[u8] = b"GET /?q=%0a HTTP/1.1\r\nHost: a.example\r\nX-Request-Id: mine\r\n\
    X-Forwarded-For: 203.0.113.1\r\nUser-Agent: \"x\" \\\t\xe9\r\nReferer: \x85\xe2\x80\xa8\r\n\r\n\
    GET / HTTP/1.1\r\nHost: other.example\r\n\r\n\
    HEAD / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

#[test]
fn each_request_is_a_json_line() {
    let (sandbox, path) = sandbox("");
    let server = sandbox.serve();
    let answers = exchange(&server, REQUESTS);
    server.fetch_plain("a.example", "/plain");
    let lines = lines(&path, 4);
    let lines: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for line in &lines {
        assert_eq!(line["client"], "127.0.0.1", "{line}");
        assert_eq!(line["complete"], true, "{line}");
        assert!(line["total_ms"].as_f64() >= line["first_byte_ms"].as_f64());
        let id = line["id"].as_str().expect("an id");
        assert_eq!(id.len(), 32, "{id}");
        let field = format!("x-request-id: {id}\r\n");
        assert!(
            answers.contains(&field) || line["target"] == "/plain",
            "{answers}"
        );
    }
    let first = &lines[0];
    assert_eq!(
        (&first["host"], &first["tenant"]),
        (&"a.example".into(), &"".into())
    );
    assert_eq!(
        (&first["method"], &first["target"]),
        (&"GET".into(), &"/?q=%0a".into())
    );
    assert_eq!(
        (&first["status"], &first["bytes"]),
        (&200.into(), &9.into())
    );
    assert_eq!(first["user_agent"], "\"x\" \\\t\u{fffd}");
    assert_eq!(first["referer"], "\u{fffd}\u{2028}");
    assert_eq!(
        (&first["tls"], &first["resumed"]),
        (&"1.3".into(), &false.into())
    );
    // A new revision of the store between handshake and request has the host looked
    // up again. Right after the start there may be one.
    let is_lookup = |line: &Value, usual: &str| line["lookup"] == usual || line["lookup"] == "hit";
    assert!(is_lookup(first, "loaded"), "{first}");
    let refused = &lines[1];
    assert_eq!(
        (&refused["status"], &refused["host"]),
        (&421.into(), &"other.example".into())
    );
    assert_eq!(
        (&refused["tenant"], &refused["lookup"]),
        (&Value::Null, &Value::Null)
    );
    let last = &lines[2];
    assert!(is_lookup(last, "connection"), "{last}");
    assert_eq!(last["bytes"], 0);
    let plain = &lines[3];
    assert_eq!(
        (&plain["status"], &plain["tls"]),
        (&308.into(), &Value::Null)
    );
    let mode = fs::metadata(&path).expect("a file").mode();
    assert_eq!(mode & 0o777 & !0o640, 0, "{mode:o}");
    server.stop();
}

#[test]
fn each_request_is_a_combined_line() {
    let (sandbox, path) = sandbox("format = \"combined\"\n");
    let server = sandbox.serve();
    exchange(&server, REQUESTS);
    let lines = lines(&path, 3);
    for line in &lines {
        assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
        assert!(
            line.bytes().all(|byte| (0x20..0x7f).contains(&byte)),
            "{line}"
        );
    }
    let first = "] \"GET /?q=%0a HTTP/1.1\" 200 9 \"\\x85\\xE2\\x80\\xA8\" \
                 \"\\x22x\\x22 \\x5C\\x09\\xE9\" host=\"a.example\" tenant=\"\" id=";
    assert!(lines[0].contains(first), "{}", lines[0]);
    assert!(lines[1].contains("\" 421 ") && lines[1].contains("host=\"other.example\""));
    server.stop();
}

#[test]
fn trusted_peers_name_the_client_and_the_request() {
    let (sandbox, path) = sandbox("");
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let config = config.replace("[listen]", "[listen]\ntrusted = [\"127.0.0.0/8\"]");
    sandbox.write("sekisho.toml", &config);
    let server = sandbox.serve();
    let answers = exchange(&server, REQUESTS);
    assert!(answers.contains("x-request-id: mine\r\n"), "{answers}");
    let first: Value = serde_json::from_str(&lines(&path, 3)[0]).expect("JSON");
    assert_eq!(
        (&first["client"], &first["id"]),
        (&"203.0.113.1".into(), &"mine".into())
    );
    server.stop();
}

#[test]
fn lines_reach_standard_output() {
    let (sandbox, path) = sandbox("");
    sandbox.configure("[log]\naccess = \"-\"\n");
    let mut command = sandbox.command(&["serve", "--log", "json"]);
    command.stdout(File::create(&path).expect("a file"));
    let server = Server::start(command);
    assert!(server.shows("a.example", "page of a"));
    let line: Value = serde_json::from_str(&lines(&path, 1)[0]).expect("JSON");
    assert_eq!(
        (&line["host"], &line["status"]),
        (&"a.example".into(), &200.into())
    );
    // Standard output is not opened again.
    server.signal(Signal::USR1);
    assert!(server.shows("a.example", "page of a"));
    lines(&path, 2);
    server.stop();
}

#[test]
fn a_line_names_the_upstream() {
    let (sandbox, path) = sandbox("");
    sandbox.allow(&["127.0.0.0/8"]);
    let address = upstream("page of another");
    let url = format!("http://{address}");
    sandbox.ok(&["host", "set", "a.example", "--upstream", &url]);
    let server = sandbox.serve();
    assert!(server.shows("a.example", "page of another"));
    let line: Value = serde_json::from_str(&lines(&path, 1)[0]).expect("JSON");
    assert_eq!(line["upstream"], address.to_string(), "{line}");
    assert_eq!((&line["status"], &line["bytes"]), (&200.into(), &15.into()));
    server.stop();
}

#[test]
fn the_file_is_opened_again_when_told() {
    let (sandbox, path) = sandbox("");
    let server = sandbox.serve();
    assert!(server.shows("a.example", "page of a"));
    let old = sandbox.path("access.log.1");
    lines(&path, 1);
    fs::rename(&path, &old).expect("a file");
    assert!(server.shows("a.example", "page of a"));
    lines(&old, 2);
    server.signal(Signal::USR1);
    until("the file is there", SOON, || path.exists());
    assert!(server.shows("a.example", "page of a"));
    lines(&path, 1);
    lines(&old, 2);
    assert!(server.log().contains("access log opened again"));
    server.stop();
}

#[test]
fn a_file_that_cant_be_opened_is_an_error_of_check_and_serve() {
    let (sandbox, path) = sandbox("");
    sandbox.ok(&["check"]);
    assert!(!path.exists());
    fs::create_dir(&path).expect("a folder");
    for command in ["check", "serve"] {
        let error = sandbox.fails(&[command]);
        let expected = format!("[log] access: {} can't be opened", path.display());
        assert!(error.contains(&expected), "{command}: {error}");
    }
}

#[test]
fn a_stalled_file_drops_lines_and_stalls_no_request() {
    let (sandbox, path) = sandbox("[server]\nworkers = 1\n");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo runs").success());
    // A reader that never reads.
    let reader = File::options().read(true).write(true).open(&path);
    let reader = reader.expect("a pipe");
    let mut server = sandbox.serve();
    let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".repeat(999);
    let last = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    let requests = [&request, last.as_slice()].concat();
    let dropped = |server: &Server| server.metric("sekisho_access_log_lines_dropped_total");
    until("lines are dropped", SOON * 3, || {
        exchange(&server, &requests);
        dropped(&server) > Some(0.0)
    });
    assert!(server.shows("a.example", "page of a"));
    until("the log says so", SOON, || {
        server
            .log()
            .contains("a line of the access log was dropped")
    });
    server.signal(Signal::TERM);
    let status = server.ended();
    assert!(status.success(), "{status}");
    drop(reader);
}
