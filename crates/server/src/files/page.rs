//! Error pages from a site's folder.

use http::Response;

use super::cache::{Form, What};
use super::load::LargeFile;
use super::path::FilePath;
use super::stream::Stream;
use super::{Files, Folder, Found, Opener, Source, answer};
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
        let status = error.status().as_u16();
        let name = format!("/{status}.html");
        let is_named = WITH_PAGE.contains(&status);
        let Some(Ok(path)) = is_named.then(|| FilePath::of_decoded(&name)) else {
            return error;
        };
        match self.find(folder, &path, Form::Plain, false).await {
            Found::Entry(entry) => match &entry.what {
                What::File(file) => {
                    let body = || file.body.clone().into();
                    let mut page = answer::page(error, is_head, &file.head, body);
                    if let Some(identity) = file.identity {
                        page.extensions_mut()
                            .insert(Source::new(folder, &path, identity));
                    }
                    page
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

/// Statuses for which a page may stand.
const WITH_PAGE: [u16; 8] = [403, 404, 413, 429, 500, 502, 503, 504];
