//! Tests what a client sees of FastCGI servers and scripts that misbehave.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Version};
use http_body_util::{BodyExt, Empty, Full};

use crate::common::metrics::figure;
use crate::fastcgi_server::{Asked, END, FastCgiServer, STDERR, STDOUT, output, record};
use crate::world::{BOTH, HOST, World, channel};

const SITE: &str = r#"{"root": "FOLDER/www", "fastcgi": {
    "servers": ["unix:FOLDER/run/{tenant}/php.sock"],
    "timeouts": {"first_byte": "300ms", "idle": "300ms"}}}"#;

fn start(answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> (World, FastCgiServer) {
    let world = World::new(SITE, &[("www/index.php", "<?php")]);
    let socket = world.folder.path().join("run/acme/php.sock");
    let server = FastCgiServer::start(&socket, answer);
    (world, server)
}

fn stdout(text: &str) -> Vec<u8> {
    record(STDOUT, text.as_bytes())
}

/// Makes the end of a request with this status, without an answer.
fn refusal(status: u8) -> Vec<u8> {
    record(END, &[0, 0, 0, 0, status, 0, 0, 0])
}

/// Changes a byte of the first record's head.
fn with(index: usize, value: u8) -> Vec<u8> {
    let mut answer = output("A: b\n\nc");
    answer[index] = value;
    answer
}

#[tokio::test]
async fn what_is_no_answer_is_a_502() {
    let (world, _server) = start(|asked| match asked.param("QUERY_STRING") {
        "nothing" => Vec::new(),
        "version" => with(0, 9),
        "type" => with(1, 9),
        "id" => with(3, 2),
        "length" => record(END, &[0; 7]),
        "no-head" => record(END, &[0; 8]),
        // It knows no Responder.
        "refused" => refusal(3),
        "no-field" => output("<html>\n\n"),
        "long" => output(&format!("A: {}\n\n", "b".repeat(1 << 20))),
        "errors" => std::iter::repeat_n(record(STDERR, &[b'e'; 60_000]), 20)
            .flatten()
            .collect(),
        _ => output("Content-Length: x\n\n"),
    });
    for version in BOTH {
        for query in [
            "nothing", "version", "type", "id", "length", "no-head", "refused", "no-field", "long",
            "errors", "number",
        ] {
            let answer = world.get(version, &format!("/index.php?{query}")).await;
            assert_eq!(answer.status, 502, "{version:?} {query}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_whole_one() {
    let (world, _server) = start(|asked| match asked.param("QUERY_STRING") {
        "end" => stdout("A: b\n\nhalf"),
        "short" => output("Content-Length: 9\n\nhalf"),
        "long" => output("Content-Length: 3\n\nmore"),
        _ => [stdout("A: b\n\nhalf"), with(0, 9)].concat(),
    });
    for version in BOTH {
        for query in ["end", "short", "long", "broken"] {
            let mut client = world.connect(version, HOST).await;
            let path = format!("/index.php?{query}");
            let begun = client.begin(Method::GET, &path, &[], empty()).await;
            // Either the head says so, or the body does.
            let is_whole = match begun {
                Ok(response) if response.status() == 200 => {
                    crate::world::Answer::of(response).await.is_ok()
                }
                Ok(response) => {
                    assert_eq!(response.status(), 502);
                    false
                }
                Err(_) => false,
            };
            assert!(!is_whole, "{version:?} {query}");
        }
    }
}

#[tokio::test]
async fn a_server_that_takes_no_request_leaves_it_to_another() {
    for version in BOTH {
        for status in [CANT_MPX_CONN, OVERLOADED] {
            let site = SITE.replace(
                r#""unix:FOLDER/run/{tenant}/php.sock""#,
                r#""unix:FOLDER/run/{tenant}/busy.sock", "unix:FOLDER/run/{tenant}/php.sock""#,
            );
            let world = World::new(&site, &[("www/index.php", "<?php")]);
            let folder = world.folder.path().join("run/acme");
            let busy = FastCgiServer::start(&folder.join("busy.sock"), move |_| refusal(status));
            let _other = FastCgiServer::start(&folder.join("php.sock"), |_| output("A: b\n\nc"));
            for _ in 0..100 {
                let answer = world.get(version, "/index.php").await;
                assert_eq!(answer.status, 200, "{version:?} {status}: {}", answer.body);
                if !busy.asked().is_empty() {
                    break;
                }
            }
            assert_eq!(busy.asked().len(), 1, "it is chosen by chance");
        }
    }
}

#[tokio::test]
async fn a_request_that_no_server_takes_is_a_503() {
    for status in [CANT_MPX_CONN, OVERLOADED] {
        let (world, server) = start(move |_| refusal(status));
        for version in BOTH {
            let answer = world.get(version, "/index.php").await;
            assert_eq!(answer.status, 503, "{version:?} {status}: {}", answer.body);
            let mut client = world.connect(version, HOST).await;
            let body = Full::new(Bytes::from_static(b"x=1"));
            let body = body.map_err(|never| match never {}).boxed();
            let answer = client.begin(Method::POST, "/index.php", &[], body).await;
            assert_eq!(answer.unwrap().status(), 503, "{version:?} {status}");
        }
        assert_eq!(server.asked().len(), 4);
    }
}

#[tokio::test]
async fn a_script_that_began_is_run_once_whatever_its_server_says() {
    let (world, server) = start(|_| [record(STDOUT, b"A: b"), refusal(OVERLOADED)].concat());
    for version in BOTH {
        let answer = world.get(version, "/index.php").await;
        assert_eq!(answer.status, 502, "{version:?}: {}", answer.body);
    }
    assert_eq!(server.asked().len(), 2);
}

fn empty() -> crate::world::Upload {
    Empty::new().map_err(|never| match never {}).boxed()
}

#[tokio::test]
async fn a_script_that_hangs_is_given_up() {
    let (world, server) = start(|asked| {
        if asked.param("QUERY_STRING") == "hang" {
            std::thread::sleep(Duration::from_secs(20));
        }
        output("A: b\n\nc")
    });
    for version in BOTH {
        let answer = world.get(version, "/index.php?hang").await;
        assert_eq!(answer.status, 504, "{version:?}");
        assert_eq!(world.get(version, "/index.php").await.status, 200);
    }
    assert_eq!(server.asked().len(), 4);
}

#[tokio::test]
async fn a_body_that_moves_puts_off_the_limit_on_the_head() {
    let (world, server) = start(|_| output("A: b\n\nc"));
    for version in BOTH {
        let (sender, body) = channel();
        let send = async {
            for _ in 0..6 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                sender.send(Bytes::from_static(&[b'x'; 100])).await.unwrap();
            }
            drop(sender);
        };
        let mut client = world.connect(version, HOST).await;
        let length = [("content-length", "600")];
        let answer = client.begin(Method::POST, "/index.php", &length, body);
        let (answer, ()) = tokio::join!(answer, send);
        assert_eq!(answer.unwrap().status(), 200, "{version:?}");
        assert_eq!(server.last().body.len(), 600);
    }
}

/// The pipe is full long before the body ends: that is the script's time, not the client's.
#[tokio::test]
async fn a_script_that_reads_no_body_is_given_up() {
    let world = World::new(SITE, &[("www/index.php", "<?php")]);
    FastCgiServer::start_deaf(&world.folder.path().join("run/acme/php.sock"));
    let body = Bytes::from(vec![b'x'; 8 << 20]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let whole = Full::new(body.clone()).map_err(|never| match never {});
        let length = body.len().to_string();
        let length = [("content-length", length.as_str())];
        let answer = client.begin(Method::POST, "/index.php", &length, whole.boxed());
        let answer = tokio::time::timeout(Duration::from_secs(20), answer).await;
        assert_eq!(answer.unwrap().unwrap().status(), 504, "{version:?}");
    }
}

#[tokio::test]
async fn a_script_that_stops_amid_its_answer_is_given_up() {
    let site = SITE.replace("\"timeouts\"", "\"keep\": 4, \"timeouts\"");
    let world = World::new(&site, &[("www/index.php", "<?php")]);
    let socket = world.folder.path().join("run/acme/php.sock");
    // The connection stays open.
    let _server = FastCgiServer::start(&socket, |_| stdout("A: b\n\nhalf"));
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let begun = client.begin(Method::GET, "/index.php", &[], empty());
        let answer = crate::world::Answer::of(begun.await.unwrap());
        let answer = tokio::time::timeout(Duration::from_secs(20), answer).await;
        assert!(answer.unwrap().is_err(), "{version:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_a_502() {
    let world = World::new(SITE, &[("www/index.php", "<?php")]);
    let answer = world.get(Version::HTTP_11, "/index.php").await;
    assert_eq!(answer.status, 502);
    let unreachable = r#"sekisho_upstream_requests_total{outcome="unreachable"}"#;
    assert_eq!(figure(&world.running, unreachable).await, 1);
}

#[tokio::test]
async fn errors_of_a_script_are_no_part_of_its_answer() {
    let (world, _server) = start(|_| {
        let mut answer = record(STDERR, b"PHP Warning: something");
        answer.extend(output("A: b\n\nc"));
        answer
    });
    for version in BOTH {
        let answer = world.get(version, "/index.php").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "c"));
    }
}

#[tokio::test]
async fn a_kept_connection_that_has_ended_is_not_used() {
    let site = SITE.replace("\"timeouts\"", "\"keep\": 4, \"timeouts\"");
    let world = World::new(&site, &[("www/index.php", "<?php")]);
    let socket = world.folder.path().join("run/acme/php.sock");
    let server = FastCgiServer::start(&socket, |asked| match asked.param("QUERY_STRING") {
        // Closes the connection.
        "end" => Vec::new(),
        // Sends more than was asked for.
        "more" => [output("A: b\n\nc"), output("A: b\n\nstray")].concat(),
        _ => output("A: b\n\nc"),
    });
    let mut client = world.connect(Version::HTTP_11, HOST).await;
    for (query, status, connections) in [
        ("", 200, 1),
        ("", 200, 1),
        // The request may be repeated.
        ("end", 502, 2),
        ("", 200, 3),
        ("more", 200, 3),
        ("", 200, 4),
    ] {
        let answer = client.get(&format!("/index.php?{query}")).await;
        assert_eq!(answer.status, status, "{query}");
        assert_eq!(server.connections(), connections, "{query}");
    }
}

#[tokio::test]
async fn requests_that_wait_bind_no_child() {
    // One network has half of the connections: as many as there are children.
    let site = SITE.replace(
        "\"timeouts\"",
        "\"keep\": 1, \"connections\": 4, \"timeouts\"",
    );
    let world = World::new(&site, &[("www/index.php", "<?php")]);
    let socket = world.folder.path().join("run/acme/php.sock");
    let _server = FastCgiServer::start_children(&socket, 2, |_| {
        // Long enough that others wait meanwhile.
        std::thread::sleep(Duration::from_millis(2));
        output("A: b\n\nc")
    });
    let asking = (0..16).map(async |_| {
        let mut client = world.connect(Version::HTTP_11, HOST).await;
        let mut statuses = Vec::new();
        for _ in 0..20 {
            statuses.push(client.get("/index.php").await.status);
        }
        statuses
    });
    let statuses = futures_util::future::join_all(asking).await.concat();
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
}

/// Protocol statuses of the end of a request (FastCGI specification 1.0, section 5.5).
const CANT_MPX_CONN: u8 = 1;
const OVERLOADED: u8 = 2;
