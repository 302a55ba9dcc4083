//! Finds the script that a request's path leads to, below a root.

use http::{Response, StatusCode};

use super::cache::{Form, What};
use super::path::FilePath;
use super::{Asked, Files, Folder, Found, NoFile, Opener};
use crate::site::body::{Body, is_read, method_not_allowed, plain};
use crate::site::{Candidate, Rule, Scripts};

/// Path of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptPath {
    /// The script's own path below the root, without a slash before it.
    pub(crate) file: Box<str>,
    /// The rest behind it: empty, or with a slash before it.
    pub(crate) info: Box<str>,
}

impl ScriptPath {
    /// Returns the path of a script without a rest behind it.
    fn of_file(path: &FilePath<'_>) -> Self {
        Self {
            file: path.as_str().into(),
            info: Box::default(),
        }
    }

    /// Returns the path by which clients ask for the script: what the rule took off the
    /// request's path stands before it, and what it added does not.
    pub(crate) fn name(&self, rule: &Rule) -> String {
        let options = rule.options.as_deref();
        let added = options.and_then(|options| options.add_prefix.as_deref());
        let path = format!("/{}", self.file);
        let path = added
            .and_then(|added| path.strip_prefix(added))
            .unwrap_or(&path);
        match options.is_some_and(|options| options.strip_prefix) {
            true => format!("{}{path}", rule.prefix),
            false => path.to_owned(),
        }
    }
}

impl Files {
    /// Finds what a request's path leads to, or the first of the paths that its rule tries
    /// which leads to something:
    ///
    /// 1. the first segment with the name of a script that is a regular file; the rest of
    ///    the path is the script's;
    /// 2. for a folder, the first file or script of the rule's `index`; without that, its
    ///    script `index`;
    /// 3. a file, which is never one with the name of a script.
    ///
    /// A directory without a slash at its end is nothing, except as the request's own path,
    /// which redirects to it. Each path has an entry of its own in the cache, also if it is
    /// missing.
    ///
    /// # Errors
    /// The answer without a script: a file, or an error.
    pub(crate) async fn find_script(
        &self,
        folder: Folder<'_>,
        asked: Asked<'_>,
        scripts: Option<&Scripts>,
        open: Opener<'_>,
    ) -> Result<ScriptPath, Response<Body>> {
        if FilePath::parse(asked.rewritten) == Err(StatusCode::BAD_REQUEST) {
            return Err(plain(StatusCode::BAD_REQUEST));
        }
        let own = [Candidate::own()];
        let tried = match asked.tried() {
            [] => &own,
            tried => tried,
        };
        for candidate in tried {
            let path = candidate.path(asked.rewritten.as_str()).map_err(plain)?;
            // Paths that are never served, such as hidden ones, are nothing.
            let Ok(path) = FilePath::of_decoded(&path) else {
                continue;
            };
            match self
                .script_or_file(folder, &asked, &path, scripts, open)
                .await
            {
                Ok(found) => return found,
                Err(NoFile::Directory) if candidate.is_own() => {
                    return Err(asked.with_slash());
                }
                Err(NoFile::Directory | NoFile::Missing) => {}
            }
        }
        Err(plain(StatusCode::NOT_FOUND))
    }

    async fn script_or_file(
        &self,
        folder: Folder<'_>,
        asked: &Asked<'_>,
        path: &FilePath<'_>,
        scripts: Option<&Scripts>,
        open: Opener<'_>,
    ) -> Result<Result<ScriptPath, Response<Body>>, NoFile> {
        let has_index = path.is_folder() && !asked.index().is_empty();
        if let Some(scripts) = scripts {
            match self.script(folder, path, scripts, !has_index).await {
                Ok(Some(script)) => return Ok(Ok(script)),
                Ok(None) => {}
                Err(status) => return Ok(Err(plain(status))),
            }
        }
        if has_index {
            let first = self.serve_index(folder, asked, path, scripts, open);
            // Boxed: paths of files have no room for it.
            return Box::pin(first).await;
        }
        // A script that comes about at this moment is no file either.
        let named = path.is_folder().then_some(INDEX_FILE);
        let named = named.unwrap_or(path.as_str());
        if scripts.is_some_and(|scripts| scripts.contain(named)) {
            return Err(NoFile::Missing);
        }
        self.file(folder, asked, path, open).await.map(Err)
    }

    /// Finds the first of the rule's `index` that a folder has: its script, or the answer
    /// with its file. Each name has an entry of its own in the cache: sites that share a root
    /// may have other names.
    async fn serve_index(
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

    /// Answers with the file of a path, if the method reads.
    async fn file(
        &self,
        folder: Folder<'_>,
        asked: &Asked<'_>,
        path: &FilePath<'_>,
        open: Opener<'_>,
    ) -> Result<Response<Body>, NoFile> {
        if !is_read(&asked.head.method) {
            // Only what is there may be asked for in the wrong way.
            return match self.find(folder, path, Form::Plain, true).await {
                Found::Entry(entry) if matches!(entry.what, What::Missing) => Err(NoFile::Missing),
                _ => Ok(method_not_allowed("GET, HEAD")),
            };
        }
        self.serve(folder, asked, path, open).await
    }

    /// Returns the script of a path; none if no segment is the name of a script that is there.
    /// For a folder it may be the usual one.
    async fn script(
        &self,
        folder: Folder<'_>,
        path: &FilePath<'_>,
        scripts: &Scripts,
        has_usual: bool,
    ) -> Result<Option<ScriptPath>, StatusCode> {
        let text = path.as_str();
        let ends = memchr::memchr_iter(b'/', text.as_bytes()).chain([text.len()]);
        let named = ends.filter(|end| scripts.contain(&text[..*end]));
        for end in named.take(MOST_NAMED) {
            if self.is_script(folder, &path.up_to(end)).await? {
                return Ok(Some(ScriptPath {
                    file: text[..end].into(),
                    info: text[end..].into(),
                }));
            }
        }
        if has_usual && path.is_folder() {
            for suffix in &scripts.suffixes {
                let index = format!("/{text}{INDEX}{suffix}");
                let Ok(index) = FilePath::of_decoded(&index) else {
                    continue;
                };
                if self.is_script(folder, &index).await? {
                    return Ok(Some(ScriptPath::of_file(&index)));
                }
            }
        }
        Ok(None)
    }

    /// Returns whether a path is a regular file.
    async fn is_script(&self, folder: Folder<'_>, path: &FilePath<'_>) -> Result<bool, StatusCode> {
        match self.find(folder, path, Form::Script, true).await {
            Found::Entry(entry) => Ok(matches!(entry.what, What::Script)),
            Found::Refused(status) => Err(status),
            Found::Large { .. } | Found::Noted => Ok(false),
        }
    }
}

/// File of a folder that is served for it.
const INDEX_FILE: &str = "index.html";
/// Name of a folder's script, before its suffix.
const INDEX: &str = "index";
/// Segments of a path that are looked for: each may take a look at the disk.
const MOST_NAMED: usize = 4;
