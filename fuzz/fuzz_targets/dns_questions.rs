//! Messages that anybody sends to the name server of a zone.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::fuzz_target;
use sekisho_dns::authority::{Reply, Transport, Zone, reply};

fuzz_target!(|bytes: &[u8]| {
    let zone = Zone::new("dcv.example", Vec::new()).expect("a zone");
    let reached = IpAddr::V4(Ipv4Addr::LOCALHOST);
    for (transport, most) in [(Transport::Udp, 1232), (Transport::Tcp, 65535)] {
        let zones = std::slice::from_ref(&zone);
        let sent = match reply(zones, bytes, transport, Some(reached)) {
            Reply::Texts(asked) => asked.answer(&["text"]),
            other => other,
        };
        if let Reply::Send(answer, _) = sent {
            assert!(answer.len() <= most);
        }
    }
});
