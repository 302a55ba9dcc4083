//! Tests that a change on one machine reaches all servers.

use sekisho_testkit::client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::*;

#[test]
fn a_change_on_any_machine_reaches_every_server() {
    let rig = Rig::new();
    for (number, machine) in rig.machines.iter().enumerate() {
        let host = format!("{number}.example");
        // Every server caches the absence of the host.
        rig.none_knows(&host);
        let first = import(&machine.sandbox, &[&host]);
        rig.all_show(&host, &first);
        let second = import(&machine.sandbox, &[&host]);
        rig.all_show(&host, &second);
        machine.sandbox.ok(&["host", "remove", &host]);
        rig.none_knows(&host);
        let third = import(&machine.sandbox, &[&host]);
        rig.all_show(&host, &third);
    }
    rig.stop();
}

#[test]
fn a_wildcard_is_overruled_and_back_on_every_server() {
    let rig = Rig::new();
    let [one, two, three] = rig.machines.each_ref().map(|machine| &machine.sandbox);
    let wildcard = import(one, &["*.b.example"]);
    rig.all_show("a.b.example", &wildcard);
    let exact = import(two, &["a.b.example"]);
    rig.all_show("a.b.example", &exact);
    rig.all_show("c.b.example", &wildcard);
    three.ok(&["host", "remove", "a.b.example"]);
    rig.all_show("a.b.example", &wildcard);
    two.ok(&["host", "remove", "*.b.example"]);
    rig.none_knows("a.b.example");
    rig.none_knows("d.b.example");
    rig.stop();
}

#[test]
fn open_connections_of_a_removed_host_end_on_every_server() {
    let rig = Rig::new();
    let [one, two, _] = &rig.machines;
    import(&one.sandbox, &["a.example", "b.example"]);
    let visits = rig.machines.each_ref();
    let mut visits = visits.map(|machine| Visit::begin(machine.server.https));
    for visit in &mut visits {
        assert_eq!(visit.status("a.example"), 404, "no page, but a host");
        assert_eq!(visit.status("b.example"), 404, "over the same connection");
    }
    two.sandbox.ok(&["host", "remove", "a.example"]);
    for visit in &mut visits {
        until("a removed host", ARRIVES, || {
            visit.status("a.example") == 421
        });
        assert!(visit.closes());
    }
    rig.stop();
}

/// Connection whose handshake was for a.example.
struct Visit(TlsStream<TcpStream>);

impl Visit {
    fn begin(server: SocketAddr) -> Self {
        let connect = client::connect(server, "a.example", client::config(ca()));
        Self(blocking(connect).expect("a handshake"))
    }

    fn status(&mut self, host: &str) -> u16 {
        let request = format!("HEAD / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let asked = blocking(async {
            self.0.write_all(request.as_bytes()).await?;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(self.0.read_u8().await?);
            }
            io::Result::Ok(String::from_utf8_lossy(&head).into_owned())
        });
        let head = asked.expect("an answer");
        let status = head.split(' ').nth(1).expect("a status");
        status.parse().expect("a number")
    }

    fn closes(&mut self) -> bool {
        let mut rest = Vec::new();
        blocking(self.0.read_to_end(&mut rest)).is_ok_and(|read| read == 0)
    }
}
