use std::fs;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::Path;

use http::header::{HOST, REFERER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use rustix::fs::FileType;
use rustls::ProtocolVersion;
use sekisho_certs::{HostName, Tenant};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::observe::metrics::LookupResult;

fn start(folder: &TempDir, format: Format) -> (Arc<AccessLog>, PathBuf) {
    let path = folder.path().join("access.log");
    let target = Target::File(path.clone());
    let log = AccessLog::start(&Settings { target, format }).unwrap();
    (log, path)
}

fn request(agent: &'static [u8]) -> Request<()> {
    let request = Request::builder()
        .method(Method::GET)
        .uri("/a\"c?b")
        .header(HOST, "A.example")
        .header(REFERER, "https://b.example/")
        .header(USER_AGENT, HeaderValue::from_bytes(agent).unwrap())
        .header(X_REQUEST_ID, "from-the-proxy");
    request.body(()).unwrap()
}

/// Writes the line of a request that was answered in full.
fn answer(log: &Arc<AccessLog>) {
    let connection = Connection {
        tls: Some(ProtocolVersion::TLSv1_3),
        resumed: true,
        trusted: true,
    };
    let client = Ipv4Addr::new(192, 0, 2, 1).into();
    let mut entry = Entry::begin(log, &request(b"\" \\ \t\xe9"), client, connection);
    let host = HostName::parse("a.example").unwrap();
    let tenant = Tenant::parse("the \"t\"").unwrap();
    entry.routed(&host, &tenant, Some(LookupResult::Loaded));
    entry.authenticated("ann \"b\"");
    entry.asks_upstream(&"127.0.0.1:3000");
    let mut fields = HeaderMap::new();
    entry.answered(StatusCode::OK, &mut fields);
    assert_eq!(fields[X_REQUEST_ID], "from-the-proxy");
    entry.sent(&http_body::Frame::data("12345".into()));
    entry.ended();
}

/// Writes the line of a request whose client left before it was routed.
fn leave(log: &Arc<AccessLog>) {
    let client = Ipv4Addr::new(192, 0, 2, 1).into();
    drop(Entry::begin(
        log,
        &request(b"x"),
        client,
        Connection::default(),
    ));
}

fn read(log: &AccessLog, path: &Path) -> String {
    log.flush();
    fs::read_to_string(path).unwrap()
}

/// Removes a value that differs each time, and returns it.
fn take(line: &mut Value, key: &str) -> Value {
    line.as_object_mut().unwrap().remove(key).unwrap()
}

#[test]
fn a_line_is_a_json_object() {
    let folder = tempfile::tempdir().unwrap();
    let (log, path) = start(&folder, Format::Json);
    answer(&log);
    leave(&log);
    let text = read(&log, &path);
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &mut lines {
        assert!(take(line, "time").as_str().unwrap().ends_with('Z'));
        assert!(take(line, "total_ms").as_f64().unwrap() >= 0.0);
    }
    assert!(take(&mut lines[0], "first_byte_ms").is_f64());
    assert_eq!(take(&mut lines[1], "id").as_str().unwrap().len(), 32);
    let answered = json!({
        "id": "from-the-proxy", "client": "192.0.2.1", "host": "a.example",
        "tenant": "the \"t\"", "user": "ann \"b\"", "method": "GET", "target": "/a\"c?b",
        "version": "HTTP/1.1", "status": 200, "bytes": 5, "bytes_in": null,
        "complete": true,
        "referer": "https://b.example/", "user_agent": "\" \\ \t\u{fffd}",
        "tls": "1.3", "resumed": true, "lookup": "loaded", "upstream": "127.0.0.1:3000",
    });
    let left = json!({
        "client": "192.0.2.1", "host": "A.example", "tenant": null, "user": null,
        "method": "GET",
        "target": "/a\"c?b", "version": "HTTP/1.1", "status": 499, "bytes": 0,
        "bytes_in": null,
        "complete": false, "referer": "https://b.example/", "user_agent": "x", "tls": null,
        "resumed": false, "lookup": null, "upstream": null, "first_byte_ms": null,
    });
    assert_eq!(lines, [answered, left]);
}

#[test]
fn a_line_is_the_combined_format_with_more_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let (log, path) = start(&folder, Format::Combined);
    answer(&log);
    leave(&log);
    let text = read(&log, &path);
    let lines: Vec<_> = text.lines().collect();
    let (first, rest) = lines[0].split_once(" [").unwrap();
    assert_eq!(first, "192.0.2.1 - ann\\x20\\x22b\\x22");
    let (_, rest) = rest.split_once(" +0000] ").unwrap();
    let (rest, _) = rest.split_once("first_byte_ms=").unwrap();
    assert_eq!(
        rest,
        "\"GET /a\\x22c?b HTTP/1.1\" 200 5 \"https://b.example/\" \
         \"\\x22 \\x5C \\x09\\xE9\" host=\"a.example\" tenant=\"the \\x22t\\x22\" \
         id=from-the-proxy tls=1.3 resumed=true lookup=loaded upstream=\"127.0.0.1:3000\" \
         bytes_in=- complete=true "
    );
    assert!(lines[1].starts_with("192.0.2.1 - - ["), "{}", lines[1]);
    let (_, rest) = lines[1].split_once(" +0000] ").unwrap();
    assert!(
        rest.starts_with("\"GET /a\\x22c?b HTTP/1.1\" 499 0 "),
        "{rest}"
    );
    assert!(
        rest.contains(" host=\"A.example\" tenant=\"-\" id="),
        "{rest}"
    );
    let end = " tls=- resumed=false lookup=- upstream=\"-\" bytes_in=- complete=false first_byte_ms=- total_ms=";
    assert!(rest.contains(end), "{rest}");
    assert_eq!(lines.len(), 2);
}

#[test]
fn a_line_stays_short_whatever_a_client_sends() {
    let folder = tempfile::tempdir().unwrap();
    for format in [Format::Json, Format::Combined] {
        let (log, path) = start(&folder, format);
        fs::write(&path, "").unwrap();
        let long = "\u{e9}".repeat(8 << 10);
        let uri = format!("/{}", "x".repeat(16 << 10));
        let mut request = Request::builder().uri(uri).method(&*"M".repeat(1000));
        for name in [HOST, REFERER, USER_AGENT] {
            request = request.header(name, HeaderValue::from_bytes(long.as_bytes()).unwrap());
        }
        let request = request.body(()).unwrap();
        let client = Ipv4Addr::LOCALHOST.into();
        drop(Entry::begin(&log, &request, client, Connection::default()));
        let text = read(&log, &path);
        assert_eq!(text.lines().count(), 1);
        assert!(text.len() < 24 << 10, "{} bytes", text.len());
    }
}

/// A pipe keeps the bytes of one write together up to `PIPE_BUF` alone.
#[test]
fn lines_of_two_servers_stay_whole_in_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, mode, 0).unwrap();
    // Open for writing, too: opening does not wait for a writer.
    let options = fs::File::options().read(true).write(true).open(&path);
    let reader = BufReader::new(options.unwrap());
    let logs = [(); 2].map(|()| {
        let target = Target::File(path.clone());
        let format = Format::Json;
        AccessLog::start(&Settings { target, format }).unwrap()
    });
    let client = Ipv4Addr::LOCALHOST.into();
    let request = |length| {
        let uri = format!("/{}", "x".repeat(length));
        Request::builder().uri(uri).body(()).unwrap()
    };
    for turn in 0..500 {
        for log in &logs {
            let length = 1 + turn * 7 % 1500;
            drop(Entry::begin(
                log,
                &request(length),
                client,
                Connection::default(),
            ));
        }
    }
    for line in reader.lines().take(1000) {
        let line = line.unwrap();
        assert!(serde_json::from_str::<Value>(&line).is_ok(), "{line}");
    }
}

#[test]
fn a_file_is_opened_again_between_two_lines() {
    let folder = tempfile::tempdir().unwrap();
    let (log, path) = start(&folder, Format::Json);
    leave(&log);
    log.flush();
    let old = folder.path().join("access.log.1");
    fs::rename(&path, &old).unwrap();
    leave(&log);
    log.flush();
    log.reopen();
    log.flush();
    leave(&log);
    assert_eq!(read(&log, &path).lines().count(), 1);
    assert_eq!(fs::read_to_string(&old).unwrap().lines().count(), 2);

    // Where that fails, the open file is kept.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    log.reopen();
    leave(&log);
    log.flush();
    assert_eq!(log.lines.dropped().get(), 0);
}

#[test]
fn each_line_that_a_full_disk_takes_not_is_counted() {
    let target = Target::File("/dev/full".into());
    let format = Format::Json;
    let log = AccessLog::start(&Settings { target, format }).unwrap();
    for _ in 0..30 {
        leave(&log);
    }
    log.flush();
    assert_eq!(log.lines.dropped().get(), 30);
}

#[test]
fn lines_of_many_requests_are_all_written_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (log, path) = start(&folder, Format::Json);
    for _ in 0..1000 {
        answer(&log);
    }
    let text = read(&log, &path);
    assert_eq!(text.lines().count(), 1000);
    let is_whole = |line: &str| serde_json::from_str::<Value>(line).is_ok();
    assert!(text.lines().all(is_whole));
}
