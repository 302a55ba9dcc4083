//! Tests sites over plain HTTP, and sites that answer in another host's place.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod alias;
mod floods;
mod refusals;
mod serving;

use std::net::SocketAddr;

use common::{Running, Scripted, Setup, host, start};
use sekisho_certs::store::{Change, ChangePage, LogId, LogPosition, Subject, What};
use sekisho_certs::{FeedState, Follower as _, Found, HostPattern, OpenKey, Site};
use sekisho_testkit::{Key, Pair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Site that answers with 410 and its text, as its key `http` says.
fn site(http: &str) -> String {
    format!(r#"{{"http": "{http}", "status": 410, "text": "served"}}"#)
}

/// Makes a host with this site, without a certificate.
fn bare(name: &str, site: &str) -> Found<OpenKey> {
    with_site(host(name, &[]), site)
}

/// Makes a host with this site and a certificate.
fn certified(name: &str, pair: &Pair, site: &str) -> Found<OpenKey> {
    with_site(host(name, &[(pair, Key::P256)]), site)
}

fn with_site(mut found: Found<OpenKey>, site: &str) -> Found<OpenKey> {
    found.record.site = Some(Site {
        format: 3,
        json: site.into(),
    });
    found
}

fn setup() -> Setup {
    let mut setup = Setup::default();
    setup.settings.plain = true;
    setup
}

fn serve(hosts: impl IntoIterator<Item = Found<OpenKey>>) -> Running {
    start(Scripted::new(hosts), &setup())
}

/// Connection of a client that keeps it.
struct Client(TcpStream);

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    async fn get(&mut self, name: &str, path: &str) -> Answer {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {name}\r\n\r\n");
        self.send(&request).await
    }

    async fn send(&mut self, request: &str) -> Answer {
        self.0.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let answer = Answer {
            status: head[9..12].parse().unwrap(),
            head,
            body: String::new(),
        };
        let length = answer.field("content-length").unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap()];
        self.0.read_exact(&mut body).await.unwrap();
        Answer {
            body: String::from_utf8(body).unwrap(),
            ..answer
        }
    }
}

/// Answer with its head in small letters.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Asserts that the answer leads to the same URL on HTTPS, and is not kept.
    fn leads_to_https(&self, running: &Running, name: &str, path: &str) {
        let port = running.address.port();
        let location = format!("https://{name}:{port}{path}");
        assert_eq!(self.status, 308, "{}", self.head);
        assert_eq!(self.field("location"), Some(&*location));
        assert_eq!(self.field("cache-control"), Some("no-store"));
    }
}

/// Asks by a connection of its own.
async fn get(running: &Running, name: &str, path: &str) -> Answer {
    Client::connect(running.http).await.get(name, path).await
}

/// Applies the change of a host that was put into the store.
fn change(running: &Running, number: u64, pattern: &str) {
    running.lookup.apply(&ChangePage {
        log: LogId([7; 16]),
        last: number,
        gap: false,
        mark_before: Some(0),
        mark_last: Some(0),
        changes: vec![Change {
            number,
            subject: Subject::Host(HostPattern::parse(pattern).unwrap()),
            what: What::Put,
        }],
    });
}

/// Begins a feed that vouches for what is cached.
fn watch(running: &Running) {
    running.lookup.restart(LogPosition {
        log: LogId([7; 16]),
        number: 0,
        mark: 0,
    });
    running.lookup.feed_is(FeedState::Healthy);
}
