//! Finds the file or script that stands for a folder by the names of its rule.

use http::Response;

use super::path::FilePath;
use super::scripts::ScriptPath;
use super::{Asked, Files, Folder, NoFile, Opener};
use crate::site::Scripts;
use crate::site::body::{Body, plain};

impl Files {
    /// Finds the first of the rule's `index` that a folder has: its script, or the answer
    /// with its file. Each name has an entry of its own in the cache: sites that share a root
    /// may have other names.
    pub(super) async fn serve_index(
        &self,
        folder: Folder<'_>,
        asked: &Asked<'_>,
        path: &FilePath<'_>,
        scripts: Option<&Scripts>,
        open: Opener<'_>,
    ) -> Result<Result<ScriptPath, Response<Body>>, NoFile> {
        for name in asked.index() {
            let path = format!("/{}{name}", path.as_str());
            let Ok(path) = FilePath::of_decoded(&path) else {
                continue;
            };
            if scripts.is_some_and(|scripts| scripts.contain(path.as_str())) {
                match self.is_script(folder, &path).await {
                    Ok(true) => return Ok(Ok(ScriptPath::of_file(&path))),
                    Ok(false) => continue,
                    Err(status) => return Ok(Err(plain(status))),
                }
            }
            match self.file(folder, asked, &path, open).await {
                Ok(response) => return Ok(Err(response)),
                Err(NoFile::Directory | NoFile::Missing) => {}
            }
        }
        Err(NoFile::Missing)
    }
}
