//! Reads addresses of name servers, in `[acme]` and `[sites]`.

use std::net::{IpAddr, SocketAddr};

use sekisho_dns::PORT;

/// Reads the address of a name server, whose port is 53 if none is given.
pub(super) fn name_server(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().ok();
    let address = address.or_else(|| Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, PORT)));
    address
        .filter(|address| address.port() != 0)
        .ok_or_else(|| {
            format!("{text:?} is no address; write \"192.0.2.53\" or \"192.0.2.53:5353\"")
        })
}
