//! Client of one host over one protocol, which judges whose each answer is.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::stream;
use http::request::Builder;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::timeout;

use super::counts::{Fault, Judged};
use super::setting::{Setting, Tenant};

pub(super) type Outgoing = BoxBody<Bytes, Infallible>;

/// Client with one connection at a time, and an address in a /24 of its own.
pub(super) struct Client<'a> {
    pub(super) setting: &'a Setting,
    pub(super) tenant: &'static Tenant,
    host: String,
    protocol: Protocol,
    pub(super) from: Ipv4Addr,
    number: usize,
    asked: usize,
    connection: Option<Sender>,
    /// Session, and the visits in it.
    pub(super) session: Option<(String, u32)>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Protocol {
    One,
    Two,
}

impl Protocol {
    pub(super) const BOTH: [Self; 2] = [Self::One, Self::Two];
}

enum Sender {
    One(http1::SendRequest<Outgoing>),
    Two(http2::SendRequest<Outgoing>),
}

/// Answer whose fields name the right tenant, user and request.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) fields: HeaderMap,
    pub(super) body: Bytes,
    /// Text that was sent with the request, and with no other one.
    pub(super) nonce: String,
}

impl<'a> Client<'a> {
    /// Makes a client whose number no other one has.
    pub(super) fn new(
        setting: &'a Setting,
        tenant: &'static Tenant,
        host: &str,
        protocol: Protocol,
        number: usize,
    ) -> Self {
        // A network of its own: one alone has half of a site's connections.
        let [.., high, low] = u32::try_from(number).unwrap_or_default().to_be_bytes();
        Self {
            setting,
            tenant,
            host: host.to_owned(),
            protocol,
            from: Ipv4Addr::new(127, 16 + high, low, 1),
            number,
            asked: 0,
            connection: None,
            session: None,
        }
    }

    pub(super) fn name(&self) -> String {
        format!("{} over {:?}", self.host, self.protocol)
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Returns how many requests there were.
    pub(super) fn asked(&self) -> usize {
        self.asked
    }

    /// Sends a GET.
    pub(super) async fn get(&mut self, path: &str) -> Result<Answer, Fault> {
        self.ask(Request::get(path), whole(Bytes::new())).await
    }

    /// Sends a request to a script, and reads its answer.
    pub(super) async fn ask(&mut self, asking: Builder, body: Outgoing) -> Result<Answer, Fault> {
        let (response, nonce) = self.begin(asking, body).await?;
        let (parts, body) = response.into_parts();
        let body = timeout(PATIENCE, body.collect()).await;
        let body = body.map_err(|_| Fault::Wrong("an answer without an end".to_owned()))?;
        let body = body.map_err(|error| self.broken(&error))?;
        Ok(Answer {
            status: parts.status.as_u16(),
            fields: parts.headers,
            body: body.to_bytes(),
            nonce,
        })
    }

    /// Sends a request to a script, and reads the head of its answer.
    pub(super) async fn begin(
        &mut self,
        asking: Builder,
        body: Outgoing,
    ) -> Result<(Response<Incoming>, String), Fault> {
        let (response, nonce) = self.send(asking, body).await?;
        self.judge(&response, &nonce)?;
        Ok((response, nonce))
    }

    /// Sends a request, whose answer may be of a file.
    pub(super) async fn send(
        &mut self,
        asking: Builder,
        body: Outgoing,
    ) -> Result<(Response<Incoming>, String), Fault> {
        let nonce = format!("n{}x{}", self.number, self.asked);
        self.asked += 1;
        let mut request = asking
            .header("x-nonce", &nonce)
            .body(body)
            .map_err(|error| Fault::Wrong(error.to_string()))?;
        let sending = async {
            let mut sender = match self.connection.take() {
                Some(sender) if !sender.is_closed() => sender,
                _ => self.connect().await?,
            };
            let response = sender.send(&self.host, &mut request).await?;
            self.connection = Some(sender);
            anyhow::Ok(response)
        };
        let sent = timeout(PATIENCE, sending).await;
        let sent = sent.map_err(|_| Fault::Wrong("no answer in time".to_owned()))?;
        Ok((sent.map_err(|error| self.broken(&error))?, nonce))
    }

    fn broken(&mut self, error: &dyn std::fmt::Display) -> Fault {
        self.connection = None;
        Fault::Away(format!("the connection ended: {error:#}"))
    }

    /// Judges whose answer it is, by the fields that each script sends.
    fn judge(&self, response: &Response<Incoming>, nonce: &str) -> Judged {
        let field = |name: &str| {
            let value = response.headers().get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let status = response.status().as_u16();
        let Some(tenant) = field("x-tenant") else {
            return Err(match status {
                502..=504 => Fault::Away(format!("told {status}")),
                _ => Fault::Wrong(format!("told {status}, not by a script")),
            });
        };
        let told = (tenant, field("x-user"), field("x-echo"));
        let user = self.tenant.user().to_string();
        let right = (
            self.tenant.name.to_owned(),
            Some(user),
            Some(nonce.to_owned()),
        );
        match told == right {
            true => Ok(()),
            false => Err(Fault::Crossed(format!("{told:?}, not {right:?}"))),
        }
    }

    async fn connect(&self) -> Result<Sender> {
        let alpn = match self.protocol {
            Protocol::One => "http/1.1",
            Protocol::Two => "h2",
        };
        let client = self.setting.hosting.client(&self.setting.server, alpn)?;
        let io = TokioIo::new(client.connect(self.from, &self.host).await?);
        Ok(match self.protocol {
            Protocol::One => {
                let (sender, connection) = http1::handshake(io).await?;
                tokio::spawn(connection);
                Sender::One(sender)
            }
            Protocol::Two => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
                tokio::spawn(connection);
                Sender::Two(sender)
            }
        })
    }
}

impl Sender {
    fn is_closed(&self) -> bool {
        match self {
            Self::One(sender) => sender.is_closed(),
            Self::Two(sender) => sender.is_closed(),
        }
    }

    async fn send(
        &mut self,
        host: &str,
        request: &mut Request<Outgoing>,
    ) -> Result<Response<Incoming>> {
        let mut request = std::mem::replace(request, Request::new(whole(Bytes::new())));
        Ok(match self {
            Self::One(sender) => {
                request.headers_mut().insert("host", host.parse()?);
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Self::Two(sender) => {
                let path = request.uri().path_and_query().context("a path")?;
                *request.uri_mut() = format!("https://{host}{path}").parse()?;
                sender.ready().await?;
                sender.send_request(request).await?
            }
        })
    }
}

impl Answer {
    /// Compares it with the right answer.
    pub(super) fn is(&self, status: u16, body: &[u8]) -> Judged {
        if self.status == status && self.body == body {
            return Ok(());
        }
        Err(Fault::Wrong(format!(
            "told {} {:?}",
            self.status,
            self.start()
        )))
    }

    /// Returns the beginning of the body, for people.
    pub(super) fn start(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        text.chars().take(200).collect()
    }
}

/// Makes a body whose length the server is told.
pub(super) fn whole(bytes: Bytes) -> Outgoing {
    Full::new(bytes).boxed()
}

/// Makes a body without a length: chunked, over HTTP/1.1.
pub(super) fn in_pieces(bytes: &Bytes) -> Outgoing {
    let pieces: Vec<_> = (0..bytes.len())
        .step_by(PIECE)
        .map(|at| bytes.slice(at..bytes.len().min(at + PIECE)))
        .map(|piece| Ok(Frame::data(piece)))
        .collect();
    StreamBody::new(stream::iter(pieces)).boxed()
}

const PIECE: usize = 10_000;
/// Far more than the largest body takes.
const PATIENCE: Duration = Duration::from_secs(60);
