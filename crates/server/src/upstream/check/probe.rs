//! Request of an active check, over a connection of its own.

use std::net::{IpAddr, Ipv4Addr};

use http::header::{HOST, HeaderValue, USER_AGENT};
use http::{Method, Request, Uri};
use tokio::time::{Instant, timeout};

use super::Asks;
use crate::proxy_protocol::encode_local;
use crate::shared::Shared;
use crate::site::{Address, Protocol, UpstreamOptions};
use crate::upstream::connect::{self, Opened, Target};
use crate::upstream::failure::Failure;
use crate::upstream::head;
use crate::upstream::identity::Site;
use crate::upstream::servers::Server;
use crate::upstream::upload::Upload;

/// Asks a server for the path of a check, and judges the status of its answer. Returns
/// none if the reason why it could not be asked says nothing of the server.
pub(super) async fn probe(
    shared: &Shared,
    server: &Server,
    asks: &Asks,
) -> Option<Result<(), String>> {
    Some(match status(shared, server, asks).await {
        Ok(status) if asks.check.status.contains(&status) => Ok(()),
        Ok(status) => Err(format!("answered with {status}")),
        Err(Failure::Own(own)) => {
            tracing::debug!(server = %server.address, %own, "upstream server not checked");
            return None;
        }
        Err(failure) => Err(failure.to_string()),
    })
}

async fn status(shared: &Shared, server: &Server, asks: &Asks) -> Result<u16, Failure> {
    let (address, options) = (&server.address, asks.upstream.options());
    let site = Site {
        shared,
        upstream: &asks.upstream,
        host: &asks.host,
        tenant: &asks.tenant,
        // No client asks.
        prefix: IpAddr::from(Ipv4Addr::UNSPECIFIED).into(),
    };
    let until = Instant::now() + options.timeouts.connect;
    let tls = site.tls(address, options.protocol, until).await?;
    let endpoints = server.endpoints(0).await?;
    let socket = site.judge(&endpoints[0], until).await?;
    let header = options.proxy_protocol.map(encode_local);
    let target = Target {
        endpoint: &endpoints[0],
        socket: socket.as_ref(),
        header: header.unwrap_or_default(),
        tls: tls.as_deref(),
        descriptor: None,
        http2: options.protocol == Protocol::Http2,
    };
    let request = request(asks, address)?;
    // The waits before it are not the server's.
    let asked = timeout(asks.check.timeout, ask(&target, options, request)).await;
    asked.unwrap_or(Err(Failure::Late))
}

/// Opens a connection, and returns the status of the answer.
async fn ask(
    target: &Target<'_>,
    options: &UpstreamOptions,
    request: Request<Upload>,
) -> Result<u16, Failure> {
    let until = Instant::now() + options.timeouts.connect;
    let (mut head, body) = request.into_parts();
    let answered = match connect::open(target, until, || ()).await? {
        Opened::One(mut one) => {
            let request = Request::from_parts(head, body);
            // Without its sender, the connection ends in order: a reset would be an
            // error in the server's log.
            one.sender.send_request(request).await
        }
        Opened::Two(mut shared) => {
            head::for_http2(&mut head, target.tls.is_some()).map_err(Failure::Refused)?;
            let request = Request::from_parts(head, body);
            shared.sender.send_request(request).await
        }
    };
    let answered = answered.map_err(|error| Failure::Answer(error.into()))?;
    Ok(answered.status().as_u16())
}

fn request(asks: &Asks, address: &Address) -> Result<Request<Upload>, Failure> {
    let wrong = |_| Failure::Settings(format!("{} is no path for a check", asks.check.path));
    let mut request = Request::new(Upload::default());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = Uri::try_from(&*asks.check.path).map_err(wrong)?;
    let host = match (&asks.upstream.options().host, address) {
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
