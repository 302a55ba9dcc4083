//! Error pages from a site's folder.

use http::{Response, StatusCode};

use super::cache::{Form, What};
use super::load::LargeFile;
use super::path::FilePath;
use super::stream::Stream;
use super::{Files, Folder, Found, Opener, answer};
use crate::site::body::Body;

impl Files {
    /// Replaces the content of an error by the page of its status in `folder`.
    /// The error stays as it is without a page, or if that can't be read.
    ///
    /// Conditions and ranges of the request don't apply to an error (RFC 9110,
    /// sections 13.2.1 and 14.2).
    pub(crate) async fn page(
        &self,
        folder: Folder<'_>,
        is_head: bool,
        error: Response<Body>,
        open: Opener<'_>,
    ) -> Response<Body> {
        let path = name_of(error.status()).map(FilePath::of_decoded);
        let Some(Ok(path)) = path else {
            return error;
        };
        match self.find(folder, &path, Form::Plain, false).await {
            Found::Entry(entry) => match &entry.what {
                What::File(file) => {
                    answer::page(error, is_head, &file.head, || file.body.clone().into())
                }
                _ => error,
            },
            Found::Large { file, .. } => {
                let Some(permit) = self.0.open.try_permit(open) else {
                    return error;
                };
                let LargeFile { head, file } = *file;
                answer::page(error, is_head, &head, || {
                    let reads = self.0.reads.of(folder);
                    Body::passing(Stream::new(file, 0, head.len, reads, permit))
                })
            }
            Found::Refused(_) | Found::Noted => error,
        }
    }
}

/// Returns the path of a status's page below the folder.
fn name_of(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::FORBIDDEN => Some("/403.html"),
        StatusCode::NOT_FOUND => Some("/404.html"),
        StatusCode::PAYLOAD_TOO_LARGE => Some("/413.html"),
        StatusCode::TOO_MANY_REQUESTS => Some("/429.html"),
        StatusCode::INTERNAL_SERVER_ERROR => Some("/500.html"),
        StatusCode::BAD_GATEWAY => Some("/502.html"),
        StatusCode::SERVICE_UNAVAILABLE => Some("/503.html"),
        StatusCode::GATEWAY_TIMEOUT => Some("/504.html"),
        _ => None,
    }
}
