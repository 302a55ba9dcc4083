//! The TLS handshake: reads the ClientHello, looks up its name, and returns an
//! encrypted stream or sends a refusal.

mod challenge;
mod hooked;
mod refusal;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rustls::server::ClientHello;
use rustls::sign::SigningKey;
use rustls::{HandshakeKind, ServerConfig};
use sekisho_certs::{Absence, Clock, HostName, LoadedCredential, LoadedHost, Served, Tenant};
use sekisho_gate::Gate;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::connection::peer::Peer;
use crate::limits::budget::Prefix;
use crate::limits::settings::Defaults;
use crate::limits::timeouts::LINGER;
use crate::lookup::ask::{FoundHost, Hosts, Unfound};
use crate::lookup::challenge::Answers;
use crate::lookup::hook::{Chooser, Hooked, Kept};
use crate::lookup::virtual_host::VirtualHost;
use crate::observe::metrics::{HandshakeResult, LookupResult};
use crate::tls::hello::{self, Hello, Sni};
use crate::tls::refuse::refuse;
use crate::tls::signing::SigningPermit;
use crate::tls::{Broken, Stream};
use refusal::{Refusal, failure};

/// Parts that handshakes use.
pub(crate) struct Handshakes {
    pub(crate) hosts: Arc<Hosts>,
    /// Hook that chooses before the lookup; none by default.
    pub(crate) chooser: Option<Arc<Chooser>>,
    /// Answers to challenges; none without issuance.
    pub(crate) answers: Option<Arc<Answers>>,
    pub(crate) defaults: Arc<Defaults>,
    pub(crate) clock: Clock,
    /// Time from accepting to the end of the handshake, lookup included.
    pub(crate) limit: Duration,
}

/// A connection whose handshake is done.
pub(crate) struct Established {
    pub(crate) stream: Stream,
    pub(crate) looked: Looked,
}

/// The host of a handshake, and how it was found.
pub(crate) struct Looked {
    /// The name that the client asked for.
    pub(crate) name: Option<HostName>,
    /// Host that the name, or the default, led to.
    pub(crate) found: FoundHost,
    /// The hook's choice, if there is a hook.
    pub(crate) hooked: Option<(Box<Hooked>, Kept)>,
}

/// Reads the ClientHello, looks up its name and finishes the handshake, all
/// before one deadline after `begun`, which [`Hosts::ask`] moves where a certificate must be waited
/// for. A client that validates a challenge gets its answer instead. Returns None
/// if there is no connection; the alert was then sent and the result counted.
pub(crate) async fn establish(
    mut socket: TcpStream,
    peer: Peer,
    begun: Instant,
    parts: &Handshakes,
    signing: &Gate<Prefix>,
) -> Option<Established> {
    let mut report = Report {
        peer: peer.address,
        begun,
        name: None,
        lookup: None,
        hook: None,
    };
    let mut deadline = begun + parts.limit;
    let Ok(hello) = timeout_at(deadline, hello::read(&mut socket)).await else {
        report.end(HandshakeResult::TimedOut, parts);
        return None;
    };
    let decided = match hello {
        Ok(hello) if hello.challenge => {
            // Boxed: no other handshake has room for it.
            Box::pin(challenge::answer(
                socket, hello, peer, deadline, parts, report,
            ))
            .await;
            return None;
        }
        Ok(hello) if parts.chooser.is_some() => {
            // Boxed: no handshake without a hook has room for it.
            let sockets = (&socket, peer);
            let decided =
                hooked::decide(&hello, sockets, &mut deadline, parts, signing, &mut report);
            Box::pin(decided).await.map(|chosen| (chosen, hello))
        }
        Ok(hello) => decide(&hello, peer, &mut deadline, parts, signing, &mut report)
            .await
            .map(|chosen| (chosen, hello)),
        Err(unfit) => Err(unfit.into()),
    };
    let (chosen, hello) = match decided {
        Ok(decided) => decided,
        Err(refusal) => {
            report.refuse(socket, &refusal, parts).await;
            return None;
        }
    };
    let config = chosen.config(peer);
    let Hello { accepted, rest, .. } = *hello;
    let tls = match accepted.into_connection(config) {
        Ok(tls) => tls,
        Err(error) => {
            report.refuse(socket, &error.into(), parts).await;
            return None;
        }
    };
    let stream = Stream::new(socket, tls, rest);
    let stream = finish(
        stream,
        &chosen.looked.found.served,
        chosen.permit,
        deadline,
        parts,
        &report,
    );
    let stream = stream.await?;
    Some(Established {
        stream,
        looked: chosen.looked,
    })
}

/// Exchanges the handshake messages before the deadline, and counts the result. A
/// session whose client certificate has expired meanwhile is closed.
async fn finish(
    mut stream: Stream,
    served: &Served<VirtualHost>,
    permit: SigningPermit<'_>,
    deadline: Instant,
    parts: &Handshakes,
    report: &Report,
) -> Option<Stream> {
    let signing = Some((permit, served.host()));
    let result = timeout_at(deadline, exchange(&mut stream, signing)).await;
    let tls = stream.tls();
    let kind = tls.and_then(|tls| tls.handshake_kind());
    let chain = tls.and_then(|tls| tls.peer_certificates());
    let counted = match failure(&result) {
        Some(failure) => failure,
        None if kind != Some(HandshakeKind::Resumed) => HandshakeResult::Full,
        None if served.value().accepts(chain, parts.clock.now()) => HandshakeResult::Resumed,
        None => HandshakeResult::ClientCertificate,
    };
    report.end(counted, parts);
    match result {
        Ok(Ok(())) if counted == HandshakeResult::ClientCertificate => {
            let _ = tokio::time::timeout(LINGER, poll_fn(|cx| stream.poll_close(cx))).await;
        }
        Ok(Ok(())) => return Some(stream),
        Ok(Err(Broken::Tls(error))) => {
            tracing::debug!(%error, "handshake failed");
            // The alert gets [`LINGER`] to be taken, not longer.
            let _ = tokio::time::timeout(LINGER, poll_fn(|cx| stream.poll_linger(cx))).await;
        }
        Ok(Err(Broken::Io(_))) | Err(_) => {}
    }
    None
}

/// Drives the handshake. A slow signature is made while `permit` is held, with
/// the ClientHello. After a HelloRetryRequest the client repeats it (RFC 8446,
/// section 4.1.4), perhaps with other signature schemes: if `host` has any slow key, the
/// permit is taken for what follows.
async fn exchange(
    stream: &mut Stream,
    signing: Option<(SigningPermit<'_>, &LoadedHost)>,
) -> Result<(), Broken> {
    stream.process_received()?;
    if let Some((mut permit, host)) = signing {
        permit.give_back().await;
        let kind = stream.tls().and_then(|tls| tls.handshake_kind());
        if kind == Some(HandshakeKind::FullWithHelloRetryRequest)
            && host.credentials.iter().any(|one| one.signs_slowly())
        {
            return exchange_with_permits(stream, permit).await;
        }
    }
    poll_fn(|cx| stream.poll_handshake(cx)).await
}

/// Takes the permit to sign before each read: any read may complete the ClientHello
/// that is signed.
async fn exchange_with_permits(
    stream: &mut Stream,
    mut permit: SigningPermit<'_>,
) -> Result<(), Broken> {
    loop {
        poll_fn(|cx| stream.poll_send(cx)).await?;
        poll_fn(|cx| stream.poll_readable(cx)).await;
        let denied = |_| rustls::Error::General("no permit to sign".into());
        permit.take().await.map_err(denied).map_err(Broken::Tls)?;
        let step = poll_fn(|cx| Poll::Ready(stream.poll_handshake(cx))).await;
        permit.give_back().await;
        if let Poll::Ready(ended) = step {
            return ended;
        }
    }
}

/// Fields of a handshake's debug log line, collected as it proceeds.
struct Report {
    peer: SocketAddr,
    begun: Instant,
    /// The name that was looked up; none unless debug lines are logged.
    name: Option<HostName>,
    lookup: Option<LookupResult>,
    /// The hook's choice, in a fixed word.
    hook: Option<&'static str>,
}

impl Report {
    fn name(&mut self, name: &HostName) {
        // A copy allocates, which a handshake must not do for a filtered line.
        if tracing::enabled!(tracing::Level::DEBUG) {
            self.name = Some(name.clone());
        }
    }

    /// Notes a lookup without a host, and returns what its client gets.
    fn unfound(&mut self, unfound: Unfound) -> Refusal {
        self.lookup = Some(unfound.lookup);
        unfound.into()
    }

    /// Counts the result and logs it.
    fn end(&self, result: HandshakeResult, parts: &Handshakes) {
        parts.hosts.metrics.handshake(result);
        tracing::debug!(
            peer = %self.peer,
            name = self.name.as_ref().map(HostName::as_str),
            result = result.as_str(),
            hook = self.hook,
            lookup = self.lookup.map(LookupResult::as_str),
            elapsed_us = self.begun.elapsed().as_micros(),
            "handshake"
        );
    }

    /// Ends with a refusal, which the client gets.
    async fn refuse(&self, socket: TcpStream, refusal: &Refusal, parts: &Handshakes) {
        self.end(refusal.result, parts);
        refuse(socket, &refusal.bytes).await;
    }
}

/// Host and permit to sign that a handshake continues with.
struct Chosen<'a> {
    looked: Looked,
    /// Taken for keys that sign slowly.
    permit: SigningPermit<'a>,
}

impl Chosen<'_> {
    /// Returns the TLS configuration of the handshake.
    fn config(&self, peer: Peer) -> Arc<ServerConfig> {
        let served = &self.looked.found.served;
        match self.looked.name {
            Some(_) => Arc::clone(served.value().config()),
            None => served.value().default_config(served.host(), peer.listen),
        }
    }
}

/// Decides what a ClientHello gets:
///
/// 1. a server name, or else the default of the listening address, or else
///    `missing_extension` for TLS 1.3 and `unrecognized_name` for TLS 1.2;
/// 2. found: the host's certificate, expired or not;
/// 3. absent, or without a credential: `unrecognized_name`;
/// 4. lookup failed, overloaded or not answered before the deadline, which
///    [`Hosts::ask`] may move: `internal_error`;
/// 5. found, with a key that signs slowly: as 2 when its permit comes, else as 4.
async fn decide<'a>(
    hello: &Hello,
    peer: Peer,
    deadline: &mut Instant,
    parts: &Handshakes,
    signing: &'a Gate<Prefix>,
    report: &mut Report,
) -> Result<Chosen<'a>, Refusal> {
    let (name, is_named) = match (&hello.sni, parts.defaults.of(peer.listen)) {
        (Sni::Name(name), _) => (name.clone(), true),
        (Sni::None, Some(default)) => (default.clone(), false),
        (Sni::None, None) => return Err(Refusal::no_name(hello.tls13)),
        // No host record can have that name.
        (Sni::Impossible, _) => return Err(Absence::NoHost.into()),
    };
    report.name(&name);
    let prefix = Prefix::from(peer.address.ip());
    let asked = parts.hosts.ask(&name, prefix, deadline, None).await;
    let found = asked.map_err(|unfound| report.unfound(unfound))?;
    report.lookup = found.lookup;
    let until = (prefix, *deadline);
    let permit = sign(&found.served, hello, &name, until, parts, signing).await?;
    let looked = Looked {
        name: is_named.then_some(name),
        found,
        hooked: None,
    };
    Ok(Chosen { looked, permit })
}

/// Chooses the credential as rustls will, and takes the permit to sign if its key signs slowly.
async fn sign<'a>(
    served: &Served<VirtualHost>,
    hello: &Hello,
    name: &HostName,
    (prefix, deadline): (Prefix, Instant),
    parts: &Handshakes,
    signing: &'a Gate<Prefix>,
) -> Result<SigningPermit<'a>, Refusal> {
    let mut permit = SigningPermit::new(signing, prefix, deadline);
    let Some(chosen) = choose(served, &hello.accepted.client_hello()) else {
        return Ok(permit);
    };
    note_expiry(chosen, (name, &served.host().record.tenant), parts);
    if chosen.signs_slowly() {
        permit.take().await.map_err(|_| Refusal::failed(true))?;
    }
    Ok(permit)
}

/// Returns the credential that rustls will choose: before it asks the resolver, it drops
/// the signature schemes that fit no common cipher suite.
fn choose<'a>(
    served: &'a Served<VirtualHost>,
    hello: &ClientHello<'_>,
) -> Option<&'a LoadedCredential> {
    let ours = &served.value().config().crypto_provider().cipher_suites;
    let fits = |key: &dyn SigningKey| {
        let offered = hello.cipher_suites();
        let mut common = ours.iter().filter(|suite| offered.contains(&suite.suite()));
        common.any(|suite| suite.usable_for_signature_algorithm(key.algorithm()))
            && key.choose_scheme(hello.signature_schemes()).is_some()
    };
    let mut credentials = served.host().credentials.iter();
    let chosen = credentials.find(|credential| fits(&*credential.certified().key));
    chosen.map(|credential| &**credential)
}

/// Counts an expired certificate and logs it at a limited rate. It is served
/// all the same: a wrong clock must not take every host down.
fn note_expiry(chosen: &LoadedCredential, whose: (&HostName, &Tenant), parts: &Handshakes) {
    let now = parts.clock.now();
    if !chosen.is_valid_at(now) {
        parts.hosts.metrics.expired_served();
        parts.hosts.log_limits.expired(whose, chosen, now);
    }
}
