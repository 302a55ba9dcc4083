//! Handshakes whose certificate a hook chooses.

use std::sync::Arc;

use rustls::AlertDescription::InternalError;
use sekisho_certs::Absence;
use sekisho_gate::Gate;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::refusal::Refusal;
use super::{Chosen, Handshakes, Looked, Peer, Report, sign};
use crate::limits::budget::Prefix;
use crate::lookup::hook::{self, Hooked, Unserved};
use crate::observe::metrics::HandshakeResult;
use crate::tls::hello::{Hello, Sni};

/// Decides what a ClientHello gets, as [`super::decide`] does, with the hook asked
/// first:
///
/// 1. a server name that no host can have: `unrecognized_name`, without the hook;
/// 2. refused by the hook: the alert of its choice;
/// 3. failed, with a policy that refuses, or not answered before the deadline:
///    `internal_error`;
/// 4. else what the choice leads to, as if its host had been asked for.
pub(super) async fn decide<'a>(
    hello: &Hello,
    (socket, peer): (&TcpStream, Peer),
    deadline: &mut Instant,
    parts: &Handshakes,
    signing: &'a Gate<Prefix>,
    report: &mut Report,
) -> Result<Chosen<'a>, Refusal> {
    let server_name = match &hello.sni {
        Sni::Name(name) => Some(name),
        Sni::None => None,
        Sni::Impossible => return Err(Absence::NoHost.into()),
    };
    let (address, listen) = (peer.address, peer.listen);
    let local = peer.server(|| socket.local_addr().ok());
    let facts = hook::facts(&hello.accepted.client_hello(), address, local);
    let facts = Arc::new(facts);
    let hooked = Box::new(Hooked { facts, listen });
    let chooser = parts.chooser.as_ref().expect("the caller has seen it");
    let (word, resolved) = chooser.resolve(&hooked, server_name, deadline).await;
    report.hook = Some(word);
    if let Some(name) = server_name {
        report.name(name);
    }
    let (found, kept) = resolved.map_err(|unserved| refusal(unserved, hello, report))?;
    report.lookup = found.lookup;
    // Without a server name, a name that the certificate stands for in the log.
    let looked_up = server_name.or(kept.host.as_ref()).cloned();
    let pattern = &found.served.host().record.pattern;
    let name = looked_up.or_else(|| pattern.exact());
    let name = name.expect("what a hook made has an exact pattern");
    let until = (Prefix::from(address.ip()), *deadline);
    let permit = sign(&found.served, hello, &name, until, parts, signing).await?;
    let looked = Looked {
        name: server_name.cloned(),
        found,
        hooked: Some((hooked, kept)),
    };
    Ok(Chosen { looked, permit })
}

/// Returns what a client gets whose choice leads to no certificate.
fn refusal(unserved: Unserved, hello: &Hello, report: &mut Report) -> Refusal {
    match unserved {
        Unserved::Refused(alert) => Refusal::new(alert.into(), HandshakeResult::HookRefused),
        Unserved::HookFailed => Refusal::new(InternalError, HandshakeResult::HookFailed),
        Unserved::NoDefault if hello.sni == Sni::None => Refusal::no_name(hello.tls13),
        Unserved::NoDefault => Absence::NoHost.into(),
        Unserved::Unfound(unfound) => report.unfound(unfound),
    }
}
