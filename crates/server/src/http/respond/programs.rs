//! Finds CGI programs, and the requests to answer in their place.

use std::path::PathBuf;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Method, Response, StatusCode, Uri};

use super::{PASSED_ON, Responder, is_trace};
use crate::cgi::{Program, Refused};
use crate::connection::request::RequestContext;
use crate::files::{Asked, FilePath, ScriptPath};
use crate::limits::log_limiter::File;
use crate::site::Root;
use crate::site::body::{Body, method_not_allowed, plain};
use crate::upstream::{self, look};

impl Responder {
    /// Finds the program of a path, and the path of it.
    ///
    /// # Errors
    /// Our own answer.
    pub(super) async fn find_program(
        &self,
        context: &RequestContext<'_>,
        upstreams: &upstream::Worker,
        root: &Root,
        asked: Asked<'_>,
    ) -> Result<(Program, ScriptPath), Response<Body>> {
        if is_trace(&asked.head.method) {
            return Err(method_not_allowed(PASSED_ON));
        }
        let path = asked.rewritten;
        let asked = FilePath::parse(path).map_err(plain)?.as_str().to_owned();
        let unavailable = || plain(StatusCode::SERVICE_UNAVAILABLE);
        let entry = self.guard().programs(root).ok_or_else(unavailable)?;
        let (entry, folder) = (entry.to_owned(), PathBuf::from(&*root.template.text));
        let find = move || {
            let found = Program::find(&entry, &folder, &asked);
            found.map(|(program, info)| {
                let file = &asked[..asked.len() - info.len()];
                let (file, info) = (file.into(), info.into());
                (program, ScriptPath { file, info })
            })
        };
        let looked = look(context, upstreams, &root.template.text, find).await;
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
pub(super) fn of_itself(head: &Parts) -> Parts {
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
pub(super) fn elsewhere(mut head: Parts, target: &str) -> Option<Parts> {
    let mut parts = head.uri.into_parts();
    parts.path_and_query = Some(target.parse().ok()?);
    head.uri = Uri::from_parts(parts).ok()?;
    Some(head)
}
