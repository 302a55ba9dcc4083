//! Long answers of hosts that a hook chose end with the record of their host.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::store::{LogId, LogPosition};
use sekisho_certs::{HostName, Served, Site, Tenant};
use sekisho_server::Limits;
use sekisho_server::hook::Choice;
use sekisho_server::site::{Allowed, Guard, OwnFiles};
use sekisho_server::{Made, Publisher, VirtualHost};
use sekisho_testkit::client;

use crate::common::upstream::{Upstream, Wire, patiently, status};
use crate::common::{LIMITS, Setup};
use crate::world::{World, name};

const LOOKING: Limits = Limits {
    host_look: Duration::from_millis(50),
    ..LIMITS
};
const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\none";

#[tokio::test]
async fn an_answer_ends_with_the_record_that_the_hook_chose() {
    let upstream = Upstream::bind().await;
    let mut setup = Setup::limits(LOOKING);
    setup.allow = vec!["127.0.0.0/8".into()];
    let allowed = Allowed::parse(&["127.0.0.0/8"], Path::new("/")).unwrap();
    let guard = Arc::new(Guard::new(allowed, OwnFiles::new(Vec::new())));
    let publisher = Publisher::new(
        Arc::clone(&setup.ring),
        sekisho_server::site::Site::not_found(),
        guard,
    );
    let site = upstream.site();
    let world = World::with(&["b.example", "c.example"], setup, |found| {
        found.record.tenant = Tenant::parse("acme").unwrap();
        found.record.site = Some(Site {
            format: 2,
            json: site.clone().into(),
        });
    });
    let made = make(&world, &publisher, &site);
    world.hook.chooses(
        move |question| match question.server_name.as_ref().map(HostName::as_str) {
            Some("a.example") => Choice::Made(made.clone()),
            Some("b.example") => Choice::Use(name("c.example")),
            _ => Choice::Lookup,
        },
    );
    let begun = async |host: &str| {
        let stream = client::connect(world.running.address, host, world.config()).await;
        let mut client = Wire::new(stream.unwrap());
        let get = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        client.send(get).await;
        let mut server = upstream.accept().await;
        server.head().await;
        server.send(EVENTS).await;
        assert_eq!(status(&client.head().await), 200);
        client.until("one").await;
        (client, server)
    };
    let (mut client, mut server) = begun("a.example").await;
    let (mut chosen, _chosen_server) = begun("b.example").await;
    let (mut looked_up, _looked_up_server) = begun("c.example").await;
    world.running.store.remove("c.example");
    world.running.lookup.restart(LogPosition {
        log: LogId([7; 16]),
        number: 0,
        mark: 0,
    });
    patiently(chosen.end()).await;
    patiently(looked_up.end()).await;
    // The host that the hook made has no record, and had none: its answer goes on.
    server.send("two").await;
    client.until("two").await;
}

fn make(world: &World, publisher: &Publisher, site: &str) -> Arc<Served<VirtualHost>> {
    let pair = (world.pair.chain_pem(), world.pair.key_pem());
    let made = publisher.make(&Made {
        pairs: &[(pair.0.as_bytes(), pair.1.as_bytes())],
        tenant: "acme",
        site: Some(site),
        key: None,
        signatures: false,
    });
    made.unwrap()
}
