//! What goes on for long ends soon after its host was removed or changed.

use std::time::Duration;

use http::Request;
use http_body_util::BodyExt as _;
use sekisho_certs::store::{LogId, LogPosition};
use sekisho_certs::{Site, Tenant};
use sekisho_server::Limits;
use sekisho_testkit::{Key, client};

use crate::common::{LIMITS, host};
use crate::http2::empty;
use crate::world::{HOST, Upstream, World, patiently, status};

const LOOKING: Limits = Limits {
    host_look: Duration::from_millis(50),
    ..LIMITS
};
const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\n\
                       Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                      Upgrade: websocket\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

#[derive(Clone, Copy, Debug)]
enum Change {
    Removed,
    Edited,
    Suspended,
}

impl World {
    /// Lets cached records be read again.
    fn restart(&self) {
        self.running.lookup.restart(LogPosition {
            log: LogId([7; 16]),
            number: 0,
            mark: 0,
        });
    }

    /// Waits until the host was looked at.
    async fn looked_at(&self) {
        let before = self.running.store.calls();
        self.restart();
        patiently(async {
            while self.running.store.calls() == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    fn put(&self, site: &str, page: Option<&str>) {
        let stored = |json: &str| Site {
            format: 3,
            json: json.into(),
        };
        let pair = self.ca.issue(&[HOST], Key::P256);
        let mut found = host(HOST, &[(&pair, Key::P256)]);
        found.record.tenant = Tenant::parse("acme").unwrap();
        found.record.site = Some(stored(site));
        found.record.suspended = page.map(stored);
        self.running.store.put(found);
    }

    fn change(&self, change: Change, site: &str) {
        match change {
            Change::Removed => self.running.store.remove(HOST),
            Change::Edited => self.put(r#"{"status": 410}"#, None),
            Change::Suspended => self.put(site, Some(r#"{"status": 503}"#)),
        }
        self.restart();
    }

    /// Renews the certificate, and lets the store fail for a while.
    async fn stay(&self, site: &str) {
        self.put(site, None);
        self.looked_at().await;
        self.running.store.fail(true);
        self.looked_at().await;
        self.running.store.fail(false);
    }
}

#[tokio::test]
async fn exchanges_end_with_their_host_and_not_before() {
    for change in [Change::Removed, Change::Edited, Change::Suspended] {
        for (request, answer, expected) in [(UPGRADE, SWITCH, 101), (GET, EVENTS, 200)] {
            let upstream = Upstream::bind().await;
            let world = World::with(LOOKING, &[(HOST, &upstream.site())]);
            let mut client = world.connect().await;
            client.send(request).await;
            let mut server = upstream.accept().await;
            server.head().await;
            server.send(format!("{answer}one")).await;
            assert_eq!(status(&client.head().await), expected);
            client.until("one").await;
            world.stay(&upstream.site()).await;
            server.send("two").await;
            client.until("two").await;
            world.change(change, &upstream.site());
            patiently(client.end()).await;
            server.closed().await;
        }
    }
}

#[tokio::test]
async fn a_network_without_a_budget_keeps_no_removed_host() {
    let upstream = Upstream::bind().await;
    let spent = Limits {
        absent_per_prefix: 1,
        ..LOOKING
    };
    let world = World::with(spent, &[(HOST, &upstream.site())]);
    let mut client = world.connect().await;
    client.send(UPGRADE).await;
    let mut server = upstream.accept().await;
    server.head().await;
    server.send(SWITCH).await;
    assert_eq!(status(&client.head().await), 101);
    // The budget regains its only token in a minute.
    let unknown = "unknown.example";
    let handshake = client::connect(world.running.address, unknown, client::config(&world.ca));
    handshake.await.unwrap_err();
    world.looked_at().await;
    world.change(Change::Removed, "");
    patiently(client.end()).await;
    server.closed().await;
}

#[tokio::test]
async fn a_stream_of_http2_ends_with_its_host() {
    let upstream = Upstream::bind().await;
    let world = World::with(LOOKING, &[(HOST, &upstream.site())]);
    let mut client = world.http2().await;
    let request = Request::get(format!("https://{HOST}/"))
        .body(empty())
        .unwrap();
    let (response, mut server) = tokio::join!(client.send_request(request), async {
        let mut server = upstream.accept().await;
        server.head().await;
        server.send(format!("{EVENTS}one")).await;
        server
    });
    let mut body = response.unwrap().into_body();
    assert_eq!(
        body.frame().await.unwrap().unwrap().into_data().unwrap(),
        "one"
    );
    world.stay(&upstream.site()).await;
    server.send("two").await;
    assert_eq!(
        body.frame().await.unwrap().unwrap().into_data().unwrap(),
        "two"
    );
    world.change(Change::Removed, "");
    assert!(patiently(body.frame()).await.unwrap().is_err());
    server.closed().await;
}
