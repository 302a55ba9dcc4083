//! Handshakes of CAs that validate a TLS-ALPN-01 challenge (RFC 8737).

use std::future::poll_fn;
use std::sync::Arc;

use rustls::{AlertDescription, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::refusal::{Refusal, failure};
use super::{Handshakes, Peer, Report, exchange};
use crate::limits::budget::Prefix;
use crate::limits::timeouts::LINGER;
use crate::lookup::ask::is_overload;
use crate::observe::metrics::HandshakeResult;
use crate::tls::Stream;
use crate::tls::hello::{Hello, Sni};

/// Finishes a handshake whose ALPN is exactly `acme-tls/1` with the challenge
/// certificate, and closes the connection without application data (RFC 8737,
/// section 3). [`choose`] says who is refused.
pub(super) async fn answer(
    socket: TcpStream,
    hello: Box<Hello>,
    peer: Peer,
    deadline: Instant,
    parts: &Handshakes,
    mut report: Report,
) {
    let config = match choose(&hello, peer, deadline, parts, &mut report).await {
        Ok(config) => config,
        Err(refusal) => return report.refuse(socket, &refusal, parts).await,
    };
    let Hello { accepted, rest, .. } = *hello;
    let tls = match accepted.into_connection(config) {
        Ok(tls) => tls,
        Err(error) => return report.refuse(socket, &error.into(), parts).await,
    };
    let mut stream = Stream::new(socket, tls, rest);
    let result = timeout_at(deadline, exchange(&mut stream, None)).await;
    let counted = failure(&result).unwrap_or(HandshakeResult::Challenge);
    report.end(counted, parts);
    if result.is_ok() {
        // What is queued, close_notify or an alert, gets [`LINGER`] to be taken.
        let _ = timeout(LINGER, poll_fn(|cx| stream.poll_close(cx))).await;
    }
}

/// Chooses the configuration with the challenge certificate:
///
/// 1. challenges are not answered here: `no_application_protocol`;
/// 2. no server name, or one without a challenge: the same alert;
/// 3. the challenge can't be read before `deadline`, or the client's prefix is
///    over its budget: `internal_error`;
/// 4. else the certificate.
async fn choose(
    hello: &Hello,
    peer: Peer,
    deadline: Instant,
    parts: &Handshakes,
    report: &mut Report,
) -> Result<Arc<ServerConfig>, Refusal> {
    let refusal = |result| Refusal::new(AlertDescription::NoApplicationProtocol, result);
    let Some(answers) = &parts.answers else {
        return Err(refusal(HandshakeResult::NoApplicationProtocol));
    };
    let absent = || refusal(HandshakeResult::AbsentChallenge);
    let Sni::Name(name) = &hello.sni else {
        return Err(absent());
    };
    report.name(name);
    let prefix = Prefix::from(peer.address.ip());
    let found = answers.over_tls(name, prefix, deadline);
    let log_limits = &parts.hosts.log_limits;
    match found.await {
        Ok(config) => {
            log_limits.challenge_asked(name, config.is_some());
            config.ok_or_else(absent)
        }
        Err(error) => {
            log_limits.challenge_failed(name.as_str(), &error);
            Err(Refusal::failed(is_overload(&error)))
        }
    }
}
