//! Answers requests below a root with scripts.

use std::sync::Arc;

use http::request::Parts;
use http::{Response, Uri};
use hyper::body::Incoming;

use super::pass_on::pass_on;
use super::{Author, Responder, discard, folder_of};
use crate::connection::request::RequestContext;
use crate::files::{Asked, Scripted};
use crate::site::body::{Body, plain};
use crate::site::{Root, Rule, Scripts, SitePath};
use crate::upstream::{self, ForwardTo, Script};

impl Responder {
    /// Has a FastCGI server run the script that the path leads to, for a user that a password
    /// has shown; else serves the file. Returns whose the answer is.
    pub(super) async fn run_script(
        &self,
        context: &RequestContext<'_>,
        upstreams: &Arc<upstream::Worker>,
        (rule, root, scripts, user): (&Rule, &Root, &Scripts, Option<&str>),
        uri: &Uri,
        (head, body): (Parts, Option<Incoming>),
    ) -> (Author, Response<Body>) {
        let path = match SitePath::parse(uri) {
            Ok(path) => path,
            Err(status) => return (Author::Server, plain(status)),
        };
        let asked = Asked {
            head: &head,
            path: &path,
            rewritten: &path.rewritten(rule),
            options: rule.options.as_deref(),
        };
        let folder = folder_of(root, context);
        let found = self
            .files
            .find_script(folder, asked, scripts, context.opener());
        let script = match found.await {
            Scripted::Script(script) => script,
            Scripted::Answer(response) => {
                discard(context, &head, body, None).await;
                return (Author::Server, response);
            }
        };
        let script = Script {
            root: &root.template.fill(context.host.as_str()),
            name: script.name(rule),
            file: &script.file,
            info: &script.info,
            path: path.encoded(),
            query: uri.query().unwrap_or_default(),
            version: head.version,
            user,
        };
        let to = ForwardTo {
            upstream: &scripts.upstream,
            path: path.encoded(),
            options: rule.options.as_deref(),
            script: Some(&script),
        };
        pass_on(context, upstreams, to, head, body).await
    }
}
