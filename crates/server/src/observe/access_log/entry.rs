//! Facts of one request for its line.

use std::fmt::Display;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{HOST, HeaderValue, REFERER, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use http_body::{Body, Frame, SizeHint};
use rustls::ProtocolVersion;
use sekisho_certs::{HostName, Tenant};

use super::AccessLog;
use super::handover::Handover;
use super::request_id::{self, X_REQUEST_ID};
use super::text::Text;
use crate::observe::metrics::LookupResult;

/// Line of a request, written when it is dropped. Made only while there is an
/// access log.
#[derive(Debug)]
pub(crate) struct Entry {
    log: Arc<AccessLog>,
    begun: Instant,
    /// Time of the request's beginning.
    pub(super) time: SystemTime,
    pub(super) client: IpAddr,
    pub(super) id: HeaderValue,
    pub(super) head: Head,
    pub(super) connection: Connection,
    pub(super) routed: Option<(HostName, Tenant)>,
    /// How the host was looked up. None if the connection knew it, or if no host
    /// was asked for.
    pub(super) lookup: Option<LookupResult>,
    /// Name of the user whose password the request carried.
    user: OnceLock<Box<str>>,
    /// Address of the upstream server that was asked last.
    upstream: Mutex<Option<Box<str>>>,
    pub(super) status: Option<StatusCode>,
    pub(super) first_byte: Option<Duration>,
    pub(super) bytes: u64,
    /// Bytes that the client sent after an upgrade; None without one.
    pub(super) received: Option<u64>,
    /// Whether the whole answer was handed over.
    pub(super) complete: bool,
}

/// Head of a request, as the client sent it.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) version: Version,
    pub(super) host: Option<HeaderValue>,
    pub(super) referer: Option<HeaderValue>,
    pub(super) user_agent: Option<HeaderValue>,
}

/// Facts of a request's connection. The default is that of plain HTTP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Connection {
    pub(crate) tls: Option<ProtocolVersion>,
    pub(crate) resumed: bool,
    /// Whether the peer's `X-Request-Id` is believed.
    pub(crate) trusted: bool,
}

impl Entry {
    /// Begins the entry of a request.
    pub(crate) fn begin<B>(
        log: &Arc<AccessLog>,
        request: &Request<B>,
        client: IpAddr,
        connection: Connection,
    ) -> Box<Self> {
        let fields = request.headers();
        Box::new(Self {
            log: Arc::clone(log),
            begun: Instant::now(),
            time: SystemTime::now(),
            client,
            id: request_id::of(fields, connection.trusted),
            head: Head {
                method: request.method().clone(),
                uri: request.uri().clone(),
                version: request.version(),
                host: fields.get(HOST).cloned(),
                referer: fields.get(REFERER).cloned(),
                user_agent: fields.get(USER_AGENT).cloned(),
            },
            connection,
            routed: None,
            lookup: None,
            user: OnceLock::new(),
            upstream: Mutex::default(),
            status: None,
            first_byte: None,
            bytes: 0,
            received: None,
            complete: false,
        })
    }

    /// Returns the id of the request.
    pub(crate) fn id(&self) -> &HeaderValue {
        &self.id
    }

    /// Notes the host that answers, and how it was looked up.
    pub(crate) fn routed(
        &mut self,
        host: &HostName,
        tenant: &Tenant,
        lookup: Option<LookupResult>,
    ) {
        self.routed = Some((host.clone(), tenant.clone()));
        self.lookup = lookup;
    }

    /// Notes how the look-up of the host failed.
    pub(crate) fn refused(&mut self, lookup: Option<LookupResult>) {
        self.lookup = lookup;
    }

    /// Notes the user whose password the request carried.
    pub(crate) fn authenticated(&self, user: &str) {
        // A request is admitted once.
        let _ = self.user.set(user.into());
    }

    /// Notes the address of the upstream server that is asked.
    pub(crate) fn asks_upstream(&self, address: &impl Display) {
        *self.upstream() = Some(address.to_string().into());
    }

    /// Notes the head of the answer, and gives it the request's id.
    pub(crate) fn answered(&mut self, status: StatusCode, fields: &mut HeaderMap) {
        fields.insert(X_REQUEST_ID, self.id.clone());
        self.status = Some(status);
        self.first_byte = Some(self.elapsed());
        self.complete = self.head.method == Method::HEAD
            || status == StatusCode::NO_CONTENT
            || status == StatusCode::NOT_MODIFIED;
    }

    /// Notes a piece of the answer's body.
    pub(crate) fn sent(&mut self, frame: &Frame<Bytes>) {
        self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
    }

    /// Notes that the body has no more pieces.
    pub(crate) fn ended(&mut self) {
        self.complete = true;
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn upstream(&self) -> MutexGuard<'_, Option<Box<str>>> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Values as they stand in lines.
impl Entry {
    /// Returns the host that answers, else the one that was asked for, which
    /// need not be a host name.
    pub(super) fn host(&self) -> Option<Text<'_>> {
        let host = match (&self.routed, self.head.uri.authority(), &self.head.host) {
            (Some((host, _)), _, _) => host.as_str().as_bytes(),
            (None, Some(authority), _) => authority.as_str().as_bytes(),
            (None, None, Some(field)) => field.as_bytes(),
            (None, None, None) => return None,
        };
        Some(Text::new(host, LONGEST_HOST))
    }

    pub(super) fn tenant(&self) -> Option<Text<'_>> {
        let (_, tenant) = self.routed.as_ref()?;
        Some(Text::whole(tenant.as_str()))
    }

    pub(super) fn user(&self) -> Option<Text<'_>> {
        self.user.get().map(|user| Text::whole(&**user))
    }

    pub(super) fn method(&self) -> Text<'_> {
        Text::new(self.head.method.as_str().as_bytes(), LONGEST_METHOD)
    }

    /// Returns path and query; for CONNECT, the authority.
    pub(super) fn target(&self) -> Text<'_> {
        let uri = &self.head.uri;
        let target = match (uri.path_and_query(), uri.authority()) {
            (Some(target), _) => target.as_str(),
            (None, Some(authority)) => authority.as_str(),
            (None, None) => "/",
        };
        Text::new(target.as_bytes(), LONGEST_TARGET)
    }

    pub(super) fn referer(&self) -> Option<Text<'_>> {
        let field = self.head.referer.as_ref()?;
        Some(Text::new(field.as_bytes(), LONGEST_FIELD))
    }

    pub(super) fn user_agent(&self) -> Option<Text<'_>> {
        let field = self.head.user_agent.as_ref()?;
        Some(Text::new(field.as_bytes(), LONGEST_FIELD))
    }

    /// Returns the status; [`CLIENT_LEFT`] if the client left before there was one.
    pub(super) fn status(&self) -> u16 {
        self.status.map_or(CLIENT_LEFT, |status| status.as_u16())
    }

    pub(super) fn tls(&self) -> Option<&'static str> {
        match self.connection.tls? {
            ProtocolVersion::TLSv1_3 => Some("1.3"),
            ProtocolVersion::TLSv1_2 => Some("1.2"),
            _ => None,
        }
    }

    /// Returns how the host was looked up, in the words of the metric; or
    /// `connection`, if the connection knew it.
    pub(super) fn answered_by(&self) -> Option<&'static str> {
        let lookup = self.lookup.map(LookupResult::as_str);
        lookup.or(self.routed.is_some().then_some("connection"))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.log.write(self);
    }
}

/// Body of an answer that notes its pieces.
pub(crate) struct Logged<B> {
    body: B,
    entry: Option<Box<Entry>>,
}

impl<B: Body> Logged<B> {
    /// Turns a response into one whose end writes the line, if there is an
    /// entry. A response behind which the connection leaves HTTP hands the entry over.
    pub(crate) fn response(
        mut response: Response<B>,
        mut entry: Option<Box<Entry>>,
    ) -> Response<Self> {
        if let Some(entry) = &mut entry {
            entry.answered(response.status(), response.headers_mut());
            if response.body().is_end_stream() {
                entry.ended();
            }
        }
        if let Some(handover) = response.extensions_mut().remove::<Handover>()
            && let Some(entry) = entry.take()
        {
            handover.put(entry);
        }
        response.map(|body| Self { body, entry })
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Logged<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        if let Some(entry) = &mut this.entry {
            if let Poll::Ready(Some(Ok(frame))) = &frame {
                entry.sent(frame);
            }
            // hyper asks for no more once it has all bytes of the length.
            if matches!(frame, Poll::Ready(None)) || this.body.is_end_stream() {
                entry.ended();
            }
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Status of a request whose client left before the answer, as nginx logs it.
const CLIENT_LEFT: u16 = 499;

/// Bytes of a client's text in a line. The head of a request has at most 32 KiB,
/// and each of its bytes may take six in a line.
const LONGEST_TARGET: usize = 4 << 10;
const LONGEST_FIELD: usize = 1 << 10;
const LONGEST_HOST: usize = 256;
const LONGEST_METHOD: usize = 32;
