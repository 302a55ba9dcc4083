//! Tests the networks of `[listen]`, and `[log]`.

use std::net::IpAddr;

use sekisho_server::access_log::{self, Format, Target};

use super::*;

#[test]
fn networks_are_trusted_or_speak_the_proxy_protocol() {
    let text = format!(
        "{MINIMAL}listen.trusted = [\"10.0.0.0/8\", \"2001:db8::/32\"]\n\
         listen.proxy = [\"10.0.0.5\"]\n"
    );
    let config = parse(&text).unwrap();
    let settings = config.settings(16);
    let [inside, proxy, outside]: [IpAddr; 3] =
        ["10.1.2.3", "10.0.0.5", "192.0.2.1"].map(|address| address.parse().unwrap());
    for (networks, contained) in [
        (&settings.trusted, [true, true, false]),
        (&settings.proxies, [false, true, false]),
    ] {
        let found = [inside, proxy, outside].map(|address| networks.contain(address));
        assert_eq!(found, contained);
    }
}

#[test]
fn names_of_upstreams_have_resolvers_of_their_own() {
    let text =
        format!("{MINIMAL}sites.resolvers = [\"192.0.2.53\", \"[::1]:5353\", \"2001:db8::1\"]\n");
    let expected = ["192.0.2.53:53", "[::1]:5353", "[2001:db8::1]:53"];
    let expected = expected.map(|text| text.parse().unwrap());
    assert_eq!(parse(&text).unwrap().settings(16).name_servers, expected);
    let settings = parse(MINIMAL).unwrap().settings(16);
    assert!(settings.name_servers.is_empty(), "the system's");
}

#[test]
fn the_access_log_has_a_target_and_a_format() {
    let file = |path: &str| Target::File(path.into());
    for (text, target, format) in [
        (
            "access = \"access.log\"",
            file("/etc/sekisho/access.log"),
            Format::Json,
        ),
        (
            "access = \"/var/log/a.log\"\nformat = \"json\"",
            file("/var/log/a.log"),
            Format::Json,
        ),
        (
            "access = \"-\"\nformat = \"combined\"",
            Target::Stdout,
            Format::Combined,
        ),
    ] {
        let config = parse(&format!("{MINIMAL}[log]\n{text}\n")).unwrap();
        let settings = access_log::Settings { target, format };
        assert_eq!(config.access_log, Some(settings));
    }
}
