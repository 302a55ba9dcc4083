//! Request of an active check, over a connection of its own.

use std::hash::BuildHasher as _;
use std::net::{IpAddr, Ipv4Addr};

use http::header::{HOST, HeaderValue, USER_AGENT};
use http::{Method, Request, Uri};
use tokio::time::{Instant, timeout_at};

use super::Check;
use crate::connection::proxy_protocol::encode_local;
use crate::site::Address;
use crate::upstream::connections::connect::{self, Target};
use crate::upstream::connections::identity::Caller;
use crate::upstream::connections::pool::Opened;
use crate::upstream::connections::tls::TlsClient;
use crate::upstream::connections::transport::Endpoint;
use crate::upstream::failure::Failure;
use crate::upstream::parts::Upstreams;
use crate::upstream::request::head;
use crate::upstream::request::upload::Upload;
use crate::upstream::servers::Server;

/// Asks a server for the path of a check, and judges the status of its answer. Returns
/// none if the reason why it could not be asked says nothing of the server.
pub(super) async fn probe(
    upstreams: &Upstreams,
    server: &Server,
    check: &Check,
) -> Option<Result<(), String>> {
    Some(match status(upstreams, server, check).await {
        Ok(status) if check.active.status.contains(&status) => Ok(()),
        Ok(status) => Err(format!("answered with {status}")),
        // The failure is this side's: the machine's, the store's, or one of the site's settings.
        Err(failure) if !failure.is_of_connecting() && !failure.is_of_server() => {
            tracing::debug!(server = %server.address, %failure, "upstream server not checked");
            return None;
        }
        Err(failure) => Err(failure.to_string()),
    })
}

/// Asks at the server's addresses in turn, until one is reached. They share the check's
/// time.
async fn status(upstreams: &Upstreams, server: &Server, check: &Check) -> Result<u16, Failure> {
    let (address, options) = (&server.address, check.upstream.options());
    let hasher = &server.common.hasher;
    let tenant = hasher.hash_one(&check.tenant);
    let site = Caller {
        upstreams,
        upstream: &check.upstream,
        host: &check.host,
        tenant: &check.tenant,
        owner: upstreams.servers.used(&check.upstream, tenant).owner,
        // No client asks.
        prefix: IpAddr::from(Ipv4Addr::UNSPECIFIED).into(),
    };
    let until = Instant::now() + options.timeouts.connect;
    let tls = site.tls(address, options.protocol, until).await?;
    // Sites of all tenants share the check: its name is in nobody's turn.
    let endpoints = server.endpoints(0, hasher.hash_one(address)).await?;
    // The waits before it are not the server's.
    let end = Instant::now() + check.active.timeout;
    let mut failed = Failure::NoServer("no address may be used");
    let mut left = endpoints.iter();
    while let Some(endpoint) = left.next() {
        let now = Instant::now();
        let share = connect::share(now, end, left.len());
        let until = share.min(now + options.timeouts.connect);
        let asked = ask(site, endpoint, tls.as_deref(), until, check, address);
        let asked = timeout_at(end, asked).await;
        match asked.unwrap_or(Err(Failure::Late)) {
            Err(failure) if failure.is_of_connecting() => failed = failure,
            // Another address may be allowed.
            Err(Failure::NoServer(_)) => {}
            ended => return ended,
        }
    }
    Err(failed)
}

/// Opens a connection until `until`, and returns the status of the answer.
async fn ask(
    site: Caller<'_>,
    endpoint: &Endpoint,
    tls: Option<&TlsClient>,
    until: Instant,
    check: &Check,
    address: &Address,
) -> Result<u16, Failure> {
    let options = check.upstream.options();
    let socket = site.judge(endpoint, until).await?;
    let header = options.proxy_protocol.map(encode_local);
    let target = Target {
        endpoint,
        socket: socket.as_ref(),
        header: header.unwrap_or_default(),
        tls,
        descriptor: None,
        protocol: options.protocol,
    };
    let (mut head, body) = request(check, address)?.into_parts();
    let opened = connect::open(&target, until).await;
    let answered = match opened.map_err(Failure::sorted)? {
        Opened::Http1(mut one) => {
            let request = Request::from_parts(head, body);
            // Without its sender, the connection ends in order: a reset would be an
            // error in the server's log.
            one.sender.send_request(request).await
        }
        Opened::FastCgi(_) => {
            return Err(Failure::Settings("no check of FastCGI servers".into()));
        }
        Opened::Http2(mut shared) => {
            head::for_http2(&mut head, tls.is_some()).map_err(Failure::Refused)?;
            let request = Request::from_parts(head, body);
            shared.sender.send_request(request).await
        }
    };
    let answered = answered.map_err(|error| Failure::Answer(error.into()))?;
    Ok(answered.status().as_u16())
}

fn request(check: &Check, address: &Address) -> Result<Request<Upload>, Failure> {
    let wrong = |_| Failure::Settings(format!("{} is no path for a check", check.active.path));
    let mut request = Request::new(Upload::default());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = Uri::try_from(&*check.active.path).map_err(wrong)?;
    let host = match (&check.upstream.options().host, address) {
        (Some(host), _) => host.clone(),
        (None, Address::Tcp { .. }) => HeaderValue::try_from(address.to_string())
            .map_err(|_| Failure::Settings(format!("{address} is no host")))?,
        (None, Address::Unix(_)) => HeaderValue::from_static("localhost"),
    };
    let fields = request.headers_mut();
    fields.insert(HOST, host);
    fields.insert(USER_AGENT, HeaderValue::from_static("sekisho-check"));
    Ok(request)
}
