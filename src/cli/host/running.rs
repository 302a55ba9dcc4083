//! Asks the running server by which `[sites]` it judges.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use sekisho_server::admin::{Address, MAX_TOKEN};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::config::Config;

/// Tells the operator where the server of this configuration does not judge sites as the
/// command has: it reads `[sites]` at its start alone.
pub(super) fn compare(config: &Config) {
    let file = config.file.display();
    let Some(address) = &config.listen.admin else {
        eprintln!(
            "note: servers read [sites] of {file} at their start; reload them after a change"
        );
        return;
    };
    match sites_of(config, address) {
        Ok(digest) if digest == config.sites_digest() => {}
        Ok(_) => eprintln!(
            "warning: the server at {address} has read another [sites] than that of {file}; \
             run 'sekisho reload', or requests may get 503"
        ),
        Err(error) => eprintln!(
            "note: the server at {address} does not answer ({error}); servers read [sites] at \
             their start"
        ),
    }
}

/// Returns the digest that the admin listener shows.
fn sites_of(config: &Config, address: &Address) -> io::Result<String> {
    let answer = match address {
        Address::Tcp(address) => {
            let socket = TcpStream::connect_timeout(&reachable(*address), PATIENCE)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            ask(config, socket)
        }
        Address::Unix(path) => {
            let socket = UnixStream::connect(path)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            ask(config, socket)
        }
    }?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    let health: Option<Value> = body.and_then(|body| serde_json::from_str(body).ok());
    let digest = health.as_ref().and_then(|health| health["sites"].as_str());
    let unknown = || io::Error::other("it shows no [sites]; it is of another version");
    digest.map(str::to_owned).ok_or_else(unknown)
}

fn ask(config: &Config, mut socket: impl Read + Write) -> io::Result<String> {
    let mut request = Zeroizing::new(String::with_capacity(MAX_TOKEN + 256));
    request.push_str("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    if let Some(source) = &config.listen.admin_token {
        let token = source.read(MAX_TOKEN + 1)?;
        request.push_str("Authorization: Bearer ");
        request.push_str(token.trim());
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    socket.write_all(request.as_bytes())?;
    let mut answer = String::new();
    socket.take(LONGEST).read_to_string(&mut answer)?;
    Ok(answer)
}

/// Returns the address at which this machine reaches a listener.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// A server on this machine answers within milliseconds; a command must not hang on one
/// that does not.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of an answer that are read.
const LONGEST: u64 = 64 << 10;
