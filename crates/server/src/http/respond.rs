//! Answers requests from their sites.

mod admission;
mod compress;
mod fields;
mod pass_on;
mod passwords;
mod programs;
mod scripts;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use sekisho_certs::metrics::Registry;
use sekisho_certs::{HostName, Tenant};

use crate::coding::is_of_type;
use crate::connection::request::RequestContext;
use crate::files::{Asked, Files, Folder, OpenFiles, Opener};
use crate::limits::in_flight::RequestGate;
use crate::limits::rates::Rates;
use crate::limits::rest;
use crate::observe::metrics::RequestRefusal;
use crate::site::body::{Body, is_read, not_allowed, plain};
use crate::site::{
    Action, Guard, NoRule, Refusals, Root, Rule, RuleOptions, Site, SitePath, to_https,
};
use crate::upstream::{self, ForwardTo, Recipient};
use compress::{MESSAGES, Wish, read_wish};
use pass_on::pass_on;
use passwords::Passwords;
pub(crate) use passwords::threads as password_threads;

/// Responder that answers requests from their sites. The server has one, which
/// holds the cache of small files.
#[derive(Debug)]
pub struct Responder {
    files: Files,
    gates: Gates,
}

/// What rules ask before they take a request.
#[derive(Debug)]
struct Gates {
    /// Counts of requests that the rates of sites bound.
    rates: Rates,
    /// Requests that sites bound, in flight.
    in_flight: RequestGate,
    passwords: Passwords,
}

impl Responder {
    /// Makes a responder that caches at most `cache` bytes of small files, and
    /// serves no file that `guard` refuses.
    #[must_use]
    pub fn new(cache: usize, guard: Arc<Guard>) -> Self {
        Self {
            files: Files::new(cache, guard),
            gates: Gates {
                rates: Rates::new(),
                in_flight: RequestGate::new(),
                passwords: Passwords::new(),
            },
        }
    }

    /// Answers one request from `site`. A program may say from which path of the site the
    /// answer comes instead (RFC 3875, section 6.2.2).
    pub(crate) async fn respond(
        &self,
        context: &RequestContext<'_>,
        upstreams: &Arc<upstream::Worker>,
        site: &Site,
        request: &mut Option<Request<Incoming>>,
    ) -> Response<Body> {
        let request = request.take().expect("a request is answered once");
        let (mut head, body) = request.into_parts();
        let mut body = Some(body);
        for _ in 0..=LOCAL_REDIRECTS {
            match self.answer(context, upstreams, site, head, body).await {
                Ok(response) => return response,
                Err(elsewhere) => (head, body) = (*elsewhere, None),
            }
        }
        plain(StatusCode::BAD_GATEWAY)
    }

    /// Answers a request, or returns the head of the one to answer in its place:
    ///
    /// 1. parses the path: 400 if it is refused;
    /// 2. finds its rule: 404 if there is none, 405 if there is none for the method. Over plain
    ///    HTTP, a rule with passwords or client certificates redirects to HTTPS;
    /// 3. asks the rule whether it takes the request: 401, 403, 413, 429 or 503;
    /// 4. answers as the rule says;
    /// 5. replaces the content of an error by the rule's page;
    /// 6. changes the answer's fields;
    /// 7. compresses it.
    ///
    /// Two things ride in the answer's extensions: the cached file that its content is of
    /// (`files::Source`), which step 7 takes out, and the permit of `in_flight`, which
    /// `http::answer` gives to the body, to be held until the answer has ended.
    async fn answer(
        &self,
        context: &RequestContext<'_>,
        upstreams: &Arc<upstream::Worker>,
        site: &Site,
        head: Parts,
        body: Option<Incoming>,
    ) -> Result<Response<Body>, Box<Parts>> {
        let path = match SitePath::parse(&head.uri) {
            Ok(path) => path,
            Err(status) => {
                discard(context, &head, body, None).await;
                return Ok(plain(status));
            }
        };
        let rule = match site.rule(&path, &head.method) {
            Ok(rule) => rule,
            Err(none) => {
                discard(context, &head, body, None).await;
                return Ok(without_rule(none));
            }
        };
        if let Some(port) = context.connection.https_port
            && needs_tls(rule)
        {
            discard(context, &head, body, None).await;
            return Ok(to_https(context.host, port, head.uri.path_and_query()));
        }
        let wish = read_wish(rule.options.as_deref(), &head.headers);
        let wanted = (head.method == Method::HEAD, is_read(&head.method), wish);
        let length = body.as_ref().map_or(0, |body| body.size_hint().lower());
        let asked = (&head.headers, length);
        let admitted = admission::admit(context, &self.gates, rule, asked).await;
        let user = admitted.as_ref().ok().and_then(|admitted| admitted.user);
        if let (Some(user), Some(entry)) = (user, context.entry) {
            entry.authenticated(user);
        }
        let (author, response) = match (&admitted, &rule.action) {
            (Ok(admitted), Action::Upstream(upstream)) => {
                let path = path.rewritten(rule).encoded().to_owned();
                let of_host = upstream.of_host(context.site_host).map(Arc::new);
                let upstream = of_host.as_ref().unwrap_or(upstream);
                let to = ForwardTo {
                    recipient: Recipient::Http(upstream, &path),
                    options: rule.options.as_deref(),
                    in_flight: admitted.in_flight.as_ref(),
                };
                pass_on(context, upstreams, to, head, body).await
            }
            (Ok(admitted), Action::Scripts(root, _) | Action::Programs(root)) => {
                let uri = head.uri.clone();
                let asked = (rule, root, admitted);
                let ran = self.run_script(context, upstreams, asked, &uri, (head, body));
                // Boxed: other requests have no room for it.
                Box::pin(ran).await?
            }
            (admitted, _) => {
                let reason = admitted.as_ref().err().map(|refused| refused.reason);
                discard(context, &head, body, reason).await;
                match admitted {
                    Ok(_) => {
                        let open = context.opener();
                        let names = (context.host, context.site_host, context.tenant);
                        self.act(rule, &path, names, &head, open).await
                    }
                    Err(refused) => (Author::Server, refused.answer(context.metrics)),
                }
            }
        };
        let Some(options) = &rule.options else {
            return Ok(response);
        };
        let finished = self.finish(context, options, wanted, author, response);
        let mut response = finished.await;
        if let Some(permit) = admitted.ok().and_then(|admitted| admitted.in_flight) {
            response.extensions_mut().insert(permit);
        }
        Ok(response)
    }

    /// Does the steps behind the answer.
    async fn finish(
        &self,
        context: &RequestContext<'_>,
        options: &RuleOptions,
        (is_head, is_read, wish): (bool, bool, Option<Wish>),
        author: Author,
        mut response: Response<Body>,
    ) -> Response<Body> {
        let has_page = response.status().as_u16() >= 400
            && match author {
                Author::Server => true,
                Author::Site => false,
                // A client that reads messages, such as those of gRPC, reads no page.
                Author::Upstream => {
                    options.upstream_errors && !is_of_type(response.headers(), &MESSAGES)
                }
            };
        match (author, &options.errors) {
            (_, Some(root)) if has_page => {
                let open = context.opener();
                let folder = folder_of(root, context);
                let page = self.files.page(folder, is_head, response, open);
                // Boxed: answers without a page have no room for it.
                response = Box::pin(page).await;
            }
            (Author::Upstream, _) => fields::cache(&mut response, is_read, &options.cache),
            (Author::Server | Author::Site, _) => {}
        }
        fields::change(&mut response, options, &context.fill());
        if let (Some(compress), Some(wish)) = (&options.compress, wish) {
            let how = (&**compress, author, is_head);
            let coded = compress::compress_answer(context, &self.files, how, wish, response);
            // Boxed: answers that are not compressed have no room for it.
            response = Box::pin(coded).await;
        }
        response
    }

    /// Answers a request to `host`, which has no tenant, that needs nothing of its
    /// connection.
    ///
    /// Never blocks: uncached files are read on the runtime's blocking pool.
    pub async fn respond_locally(
        &self,
        site: &Site,
        host: &HostName,
        head: &Parts,
        open: &OpenFiles,
    ) -> Response<Body> {
        let path = match SitePath::parse(&head.uri) {
            Ok(path) => path,
            Err(status) => return plain(status),
        };
        let rule = match site.rule(&path, &head.method) {
            Ok(rule) => rule,
            Err(none) => return without_rule(none),
        };
        let open = Opener {
            connection: open,
            prefix: IpAddr::from(Ipv4Addr::UNSPECIFIED).into(),
        };
        let names = (host, host, &Tenant::default());
        let (_, response) = self.act(rule, &path, names, head, open).await;
        response
    }

    /// Answers by a rule without an upstream. The names are the host that was asked for, the one
    /// whose site answers, and its tenant. Returns whose the answer is.
    async fn act(
        &self,
        rule: &Rule,
        path: &SitePath<'_>,
        (asked_host, host, tenant): (&HostName, &HostName, &Tenant),
        head: &Parts,
        open: Opener<'_>,
    ) -> (Author, Response<Body>) {
        let response = match &rule.action {
            Action::Files(root) => {
                let asked = Asked {
                    head,
                    path,
                    rewritten: &path.rewritten(rule),
                    options: rule.options.as_deref(),
                };
                let folder = Folder { root, host, tenant };
                self.files.respond(folder, asked, open).await
            }
            Action::Upstream(_) | Action::Scripts(..) | Action::Programs(_) => {
                plain(StatusCode::BAD_GATEWAY)
            }
            Action::Redirect(redirect) => {
                redirect.respond(asked_host, &head.uri, (path, &*rule.prefix))
            }
            Action::Status { code, text: None } => plain(*code),
            Action::Status {
                code,
                text: Some(text),
            } => return (Author::Site, Body::plain(*code, text.as_bytes().to_vec())),
        };
        (Author::Server, response)
    }

    /// Returns the guard of files and upstreams.
    pub(crate) fn guard(&self) -> &Arc<Guard> {
        self.files.guard()
    }

    /// Drops the cached files and bounds their cache to 2 MiB from now on, for a process that
    /// serves only the connections that it has. Files are served on.
    pub fn give_back(&self) {
        self.files.give_back();
    }

    /// Registers the metrics of the cache of small files and of refusals.
    pub fn register(&self, registry: &mut Registry) {
        self.files.register(registry);
    }

    /// Returns how often the guard refused.
    #[must_use]
    pub fn refused(&self) -> &Refusals {
        self.files.guard().refused()
    }
}

/// Author of an answer's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Author {
    /// The server: errors get the rule's pages.
    Server,
    /// The site's document: its text stays.
    Site,
    Upstream,
}

/// Makes the answer to a request that no rule takes.
fn without_rule(none: NoRule) -> Response<Body> {
    match none {
        NoRule::Path => plain(StatusCode::NOT_FOUND),
        NoRule::Method(allowed) => not_allowed(allowed),
    }
}

/// Returns whether a rule asks for what plain HTTP must not carry, or can't: passwords and
/// client certificates.
fn needs_tls(rule: &Rule) -> bool {
    let options = rule.options.as_ref();
    options.is_some_and(|options| options.auth.is_some() || options.client_certificate)
}

/// Returns the folder of a root for the host of a request.
fn folder_of<'a>(root: &'a Root, context: &RequestContext<'a>) -> Folder<'a> {
    Folder {
        root,
        host: context.site_host,
        tenant: context.tenant,
    }
}

/// Returns whether a method asks for the request itself: the answer would show a client
/// the fields that rules and the server set (RFC 9110, section 9.3.8).
fn is_trace(method: &Method) -> bool {
    *method == Method::TRACE || method.as_str() == "TRACK"
}

/// Times that programs may say in a row from where the answer comes instead.
const LOCAL_REDIRECTS: usize = 5;

/// Methods that an upstream usually takes, for the answer to one that it never gets.
const PASSED_ON: &str = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";

/// Reads a body that the answer ignores, where it must be read before that.
async fn discard(
    context: &RequestContext<'_>,
    head: &Parts,
    body: Option<Incoming>,
    refused: Option<RequestRefusal>,
) {
    if let Some(body) = body.filter(|body| rest::is_open(head, body)) {
        let is_too_large = refused == Some(RequestRefusal::Body);
        let timeouts = &context.connection.timeouts;
        Box::pin(rest::discard(body, is_too_large, timeouts)).await;
    }
}
