//! Which files of this machine are the server's own.

use std::path::{Path, PathBuf};

use sekisho_certs::seal::KeySource;

use super::{Config, StoreUrl, TokenSource};
use crate::site::{OwnFiles, Site};

impl Config {
    /// Lists the files that no site serves: this configuration and the files
    /// with keys, tokens and hosts that it names.
    #[must_use]
    pub fn own_files(&self) -> OwnFiles {
        let mut files = vec![self.file.clone()];
        if let Some(KeySource::File(path)) = &self.keys {
            files.push(path.clone());
        }
        files.extend(token_file(self.listen.admin_token.as_ref()));
        files.extend(self.tickets.clone());
        match &self.store {
            StoreUrl::Sqlite(path) => files.extend(database(path)),
            StoreUrl::Http { token, .. } => files.extend(token_file(token.as_ref())),
            StoreUrl::Redis(url) => files.extend(url.key_file().map(Path::to_owned)),
            // A password stands in the URL; `files:` is kept apart from the
            // roots when the configuration is read.
            StoreUrl::Postgres(_) | StoreUrl::Files { .. } => {}
        }
        let level = self.level.as_ref().and_then(|url| url.key_file());
        files.extend(level.map(Path::to_owned));
        if let Some(disk) = &self.cache.disk {
            files.extend(database(&disk.path));
            // The key of copies of plain keys.
            files.push(with_suffix(&disk.path, ".key"));
        }
        OwnFiles::new(files)
    }
}

/// Keeps the keys of a `files:` store out of the folder that `[site]` serves.
pub(super) fn apart(store: &StoreUrl, site: &Site) -> Result<(), String> {
    let (StoreUrl::Files { pattern }, Some(root)) = (store, site.root()) else {
        return Ok(());
    };
    let root = fixed_folder(root, true);
    for pattern in pattern.split(',') {
        let keys = fixed_folder(pattern, false);
        if keys.starts_with(root) {
            return Err(format!(
                "{} holds {}, where the store's private keys are; serve a folder beside it",
                root.display(),
                keys.display()
            ));
        }
    }
    Ok(())
}

/// The folder that a path lies in whatever the host's name is. A path without
/// a place for the name may be that folder itself.
fn fixed_folder(path: &str, is_folder: bool) -> &Path {
    match path.split_once("{host}") {
        None if is_folder => Path::new(path),
        None => Path::new(path).parent().unwrap_or(Path::new("/")),
        Some((fixed, _)) => {
            let end = fixed.rfind('/').unwrap_or(0);
            Path::new(if end == 0 { "/" } else { &fixed[..end] })
        }
    }
}

fn token_file(source: Option<&TokenSource>) -> Option<PathBuf> {
    match source? {
        TokenSource::File(path) => Some(path.clone()),
        TokenSource::Env(_) => None,
    }
}

/// The files of an SQLite database (sqlite.org/tempfiles.html).
fn database(path: &Path) -> impl Iterator<Item = PathBuf> {
    ["", "-wal", "-shm", "-journal"]
        .map(|suffix| with_suffix(path, suffix))
        .into_iter()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
