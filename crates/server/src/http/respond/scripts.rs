//! Answers requests below a root with scripts: of a FastCGI server, or CGI programs.

use std::sync::Arc;

use http::request::Parts;
use http::{Response, StatusCode, Uri};
use hyper::body::Incoming;

use super::admission::Admitted;
use super::pass_on::pass_on;
use super::programs::{elsewhere, of_itself};
use super::{Author, Responder, discard, folder_of};
use crate::cgi::Program;
use crate::connection::request::RequestContext;
use crate::files::Asked;
use crate::site::body::{Body, plain};
use crate::site::{Action, Root, Rule, SitePath, Upstream};
use crate::upstream::{self, ForwardTo, LocalRedirect, Recipient, Script};

/// Kind of server or program that runs a script.
enum Runner {
    Server(Arc<Upstream>),
    Program(Program),
}

impl Responder {
    /// Runs the script or program that the path leads to, for a request that was admitted;
    /// below a root with scripts, else serves the file. Returns whose the answer is.
    ///
    /// # Errors
    /// The head of the request to answer in its place, if a program says so.
    pub(super) async fn run_script(
        &self,
        context: &RequestContext<'_>,
        upstreams: &Arc<upstream::Worker>,
        (rule, root, admitted): (&Rule, &Root, &Admitted<'_>),
        uri: &Uri,
        (head, body): (Parts, Option<Incoming>),
    ) -> Result<(Author, Response<Body>), Box<Parts>> {
        let path = match SitePath::parse(uri) {
            Ok(path) => path,
            Err(status) => return Ok((Author::Server, plain(status))),
        };
        let asked = Asked {
            head: &head,
            path: &path,
            rewritten: &path.rewritten(rule),
            options: rule.options.as_deref(),
        };
        let found = if let Action::Scripts(_, scripts) = &rule.action {
            let (folder, open) = (folder_of(root, context), context.opener());
            let found = self.files.find_script(folder, asked, Some(scripts), open);
            let found = match scripts.are_run() {
                true => found.await,
                false => found.await.and(Err(plain(StatusCode::FORBIDDEN))),
            };
            found.map(|script| {
                let upstream = scripts.upstream.of_host(context.site_host).map(Arc::new);
                let upstream = upstream.unwrap_or_else(|| Arc::clone(&scripts.upstream));
                (script, Runner::Server(upstream))
            })
        } else {
            let found = self.find_program(context, upstreams, root, asked).await;
            found.map(|(program, script)| (script, Runner::Program(program)))
        };
        let (script, runner) = match found {
            Ok(found) => found,
            Err(response) => {
                discard(context, &head, body, None).await;
                return Ok((Author::Server, response));
            }
        };
        let script = Script {
            root: &root.template.fill(context.site_host.as_str()),
            name: script.name(rule),
            file: &script.file,
            info: &script.info,
            path: path.encoded(),
            query: uri.query().unwrap_or_default(),
            version: head.version,
            user: admitted.user,
        };
        let to = ForwardTo {
            recipient: match &runner {
                Runner::Program(program) => Recipient::Program(program, &script),
                Runner::Server(upstream) => Recipient::Script(upstream, &script),
            },
            options: rule.options.as_deref(),
            in_flight: admitted.in_flight.as_ref(),
        };
        let again = match &runner {
            Runner::Program(_) => Some(of_itself(&head)),
            Runner::Server(_) => None,
        };
        let (author, mut response) = pass_on(context, upstreams, to, head, body).await;
        let target = response.extensions_mut().remove::<LocalRedirect>();
        match (again, target) {
            (Some(again), Some(LocalRedirect(target))) => match elsewhere(again, &target) {
                Some(head) => Err(Box::new(head)),
                None => Ok((Author::Server, plain(StatusCode::BAD_GATEWAY))),
            },
            _ => Ok((author, response)),
        }
    }
}
