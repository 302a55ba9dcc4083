//! Files that a rule tries in order.

use http::{Response, StatusCode};

use super::path::FilePath;
use super::{Asked, Files, Folder, NoFile, Opener};
use crate::site::body::{Body, plain};

impl Files {
    /// Answers with the first file of the paths that the request's rule tries,
    /// else with 404. A directory without a slash at its end is no file, except
    /// as the request's own path, which redirects to it. Each path has an entry
    /// of its own in the cache, also if it is missing.
    pub(super) async fn first_tried(
        &self,
        folder: Folder<'_>,
        asked: &Asked<'_>,
        open: Opener<'_>,
    ) -> Response<Body> {
        for candidate in asked.tried() {
            let path = match candidate.path(asked.rewritten.as_str()) {
                Ok(path) => path,
                Err(status) => return plain(status),
            };
            // Paths that are never served, such as hidden ones, are no files.
            let Ok(path) = FilePath::of_decoded(&path) else {
                continue;
            };
            match self.serve(folder, asked, &path, open).await {
                Ok(response) => return response,
                Err(NoFile::Directory) if candidate.is_own() => return asked.with_slash(),
                Err(NoFile::Directory | NoFile::Missing) => {}
            }
        }
        plain(StatusCode::NOT_FOUND)
    }
}
