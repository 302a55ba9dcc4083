//! Answers requests by CGI programs.

use std::path::PathBuf;
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Method, Response, StatusCode, Uri};
use hyper::body::Incoming;

use super::{Author, PASSED_ON, Responder, discard, is_trace};
use crate::cgi::{Program, Refused};
use crate::connection::request::RequestContext;
use crate::files::{FilePath, ScriptPath};
use crate::limits::log_limiter::File;
use crate::site::body::{Body, method_not_allowed, plain};
use crate::site::{Root, Rule, SitePath};
use crate::upstream::program::{self, ProgramTo, Ran, run};
use crate::upstream::{self, Script};

impl Responder {
    /// Answers by the program that the path leads to, below a root of programs, for a user
    /// that a password has shown. Returns whose the answer is.
    ///
    /// # Errors
    /// The head of the request to answer in its place.
    pub(super) async fn run_program(
        &self,
        context: &RequestContext<'_>,
        upstreams: &Arc<upstream::Worker>,
        (rule, root, user): (&Rule, &Root, Option<&str>),
        uri: &Uri,
        (head, body): (Parts, Option<Incoming>),
    ) -> Result<(Author, Response<Body>), Box<Parts>> {
        let path = match SitePath::parse(uri) {
            Ok(path) => path,
            Err(status) => return Ok((Author::Server, plain(status))),
        };
        let found = match is_trace(&head.method) {
            true => Err(method_not_allowed(PASSED_ON)),
            false => {
                let below = path.rewritten(rule);
                self.find_program(context, upstreams, root, &below).await
            }
        };
        let (program, script) = match found {
            Ok(found) => found,
            Err(response) => {
                discard(context, &head, body, None).await;
                return Ok((Author::Server, response));
            }
        };
        let asked = Script {
            root: &root.template.text,
            name: script.name(rule),
            file: &script.file,
            info: &script.info,
            path: path.encoded(),
            query: uri.query().unwrap_or_default(),
            version: head.version,
            user,
        };
        let to = ProgramTo {
            program,
            script: &asked,
            options: rule.options.as_deref(),
        };
        let again = of_itself(&head);
        match run(context, upstreams, to, head, body).await {
            Ok(Ran::Answer(response)) => Ok((Author::Upstream, response)),
            Ok(Ran::Elsewhere(target)) => match elsewhere(again, &target) {
                Some(head) => Err(Box::new(head)),
                None => Ok((Author::Server, plain(StatusCode::BAD_GATEWAY))),
            },
            Err(status) => Ok((Author::Server, plain(status))),
        }
    }

    /// Finds the program of a path, and the path of it.
    ///
    /// # Errors
    /// Our own answer.
    async fn find_program(
        &self,
        context: &RequestContext<'_>,
        upstreams: &upstream::Worker,
        root: &Root,
        path: &SitePath<'_>,
    ) -> Result<(Program, ScriptPath), Response<Body>> {
        let asked = FilePath::parse(path).map_err(plain)?.as_str().to_owned();
        let unavailable = || plain(StatusCode::SERVICE_UNAVAILABLE);
        let entry = self.guard().programs(root).ok_or_else(unavailable)?;
        let (entry, folder) = (entry.to_owned(), PathBuf::from(&*root.template.text));
        let look = move || {
            let found = Program::find(&entry, &folder, &asked);
            found.map(|(program, info)| {
                let file = &asked[..asked.len() - info.len()];
                let (file, info) = (file.into(), info.into());
                (program, ScriptPath { file, info })
            })
        };
        let looked = program::look(context, upstreams, &root.template.text, look).await;
        looked.map_err(plain)?.map_err(|refused| {
            if let Refused::Absent = refused {
                return plain(StatusCode::NOT_FOUND);
            }
            let file = File {
                host: context.host.as_str(),
                tenant: context.tenant,
                root: &root.template.text,
                path: path.encoded(),
            };
            let limits = &upstreams.upstreams.hosts.log_limits;
            limits.file_refused(file, &refused);
            unavailable()
        })
    }
}

/// Makes the head of a request that reads, with the fields of another one.
fn of_itself(head: &Parts) -> Parts {
    let mut again = head.clone();
    again.extensions.clear();
    for name in [CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TRANSFER_ENCODING] {
        again.headers.remove(name);
    }
    if again.method != Method::HEAD {
        again.method = Method::GET;
    }
    again
}

/// Changes the path and query of a request. None if they are none.
fn elsewhere(mut head: Parts, target: &str) -> Option<Parts> {
    let mut parts = head.uri.into_parts();
    parts.path_and_query = Some(target.parse().ok()?);
    head.uri = Uri::from_parts(parts).ok()?;
    Some(head)
}
