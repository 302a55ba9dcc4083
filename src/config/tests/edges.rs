//! Tests the networks of `[listen]`.

use std::net::IpAddr;

use super::*;

#[test]
fn networks_are_trusted_or_speak_the_proxy_protocol() {
    let text = format!(
        "{MINIMAL}listen.trusted = [\"10.0.0.0/8\", \"2001:db8::/32\"]\n\
         listen.proxy = [\"10.0.0.5\"]\n"
    );
    let config = parse(&text).unwrap();
    let settings = config.settings();
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
