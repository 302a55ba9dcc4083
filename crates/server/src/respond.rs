//! Answers requests from their sites.

use std::sync::Arc;

use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use sekisho_certs::HostName;
use sekisho_certs::metrics::Registry;

use crate::body::{Body, plain};
use crate::files::{Files, OpenFiles};
use crate::http::rest;
use crate::request::RequestContext;
use crate::site::{Action, Guard, Refusals, Rule, Site, SitePath};
use crate::upstream::{Way, forward};

/// Responder that answers requests from their sites. The server has one, which
/// holds the cache of small files.
#[derive(Debug)]
pub struct Responder {
    files: Files,
}

impl Responder {
    /// Makes a responder that caches at most `cache` bytes of small files, and
    /// serves no file that `guard` refuses.
    #[must_use]
    pub fn new(cache: usize, guard: Arc<Guard>) -> Self {
        Self {
            files: Files::new(cache, guard),
        }
    }

    /// Answers one request from `site`.
    pub(crate) async fn respond(
        &self,
        context: &RequestContext<'_>,
        site: &Site,
        request: Request<Incoming>,
    ) -> Response<Body> {
        // The path borrows the target, and the request moves on.
        let target = request.uri().clone();
        let path = match SitePath::parse(&target) {
            Ok(path) => path,
            Err(status) => return plain(status),
        };
        let Some(rule) = site.rule(&path) else {
            return plain(StatusCode::NOT_FOUND);
        };
        if let Action::Upstream(upstream) = &rule.action {
            let rewritten = path.rewritten(rule);
            let way = Way {
                upstream,
                path: rewritten.encoded(),
                options: rule.options.as_deref(),
            };
            let answer = forward(context, way, request).await;
            return answer.unwrap_or_else(plain);
        }
        let (head, body) = request.into_parts();
        if rest::is_open(&head, &body) {
            Box::pin(rest::discard(body)).await;
        }
        let open = context.connection.files();
        self.act(rule, &path, context.host, &head, open).await
    }

    /// Answers a request to `host` that needs nothing of its connection.
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
        let Some(rule) = site.rule(&path) else {
            return plain(StatusCode::NOT_FOUND);
        };
        self.act(rule, &path, host, head, open).await
    }

    /// Answers by a rule without an upstream.
    async fn act(
        &self,
        rule: &Rule,
        path: &SitePath<'_>,
        host: &HostName,
        head: &Parts,
        open: &OpenFiles,
    ) -> Response<Body> {
        match &rule.action {
            Action::Files(root) => {
                let rewritten = path.rewritten(rule);
                let asked = (head, path);
                self.files
                    .respond(root, host, asked, &rewritten, open)
                    .await
            }
            Action::Upstream(_) => plain(StatusCode::BAD_GATEWAY),
            Action::Redirect(redirect) => redirect.respond(host, &head.uri),
            Action::Status { code, text: None } => plain(*code),
            Action::Status {
                code,
                text: Some(text),
            } => Body::plain(*code, text.as_bytes().to_vec()),
        }
    }

    /// Returns the guard of files and upstreams.
    pub(crate) fn guard(&self) -> &Arc<Guard> {
        self.files.guard()
    }

    /// Registers the metrics of the cache of small files and of refusals.
    pub fn register(&self, registry: &mut Registry) {
        self.files.register(registry);
    }

    /// Returns how often the guard refused.
    #[must_use]
    pub fn refused(&self) -> &Refusals {
        self.files.refused()
    }
}
