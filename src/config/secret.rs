//! Sources of secrets.

use std::env;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sekisho_server::secret_file;
use sekisho_stores::url::path_below;
use zeroize::Zeroizing;

/// Source of a secret, such as `[listen] admin_token`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SecretSource {
    /// `file:PATH`.
    File(PathBuf),
    /// `env:NAME`: an environment variable.
    Env(String),
}

impl SecretSource {
    pub(crate) fn parse(text: &str, base: &Path) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("file", path)) => Ok(Self::File(path_below(base, path)?)),
            Some(("env", name)) if name.is_empty() || name.contains(['=', '\0', ' ']) => {
                Err(format!("{name:?} is no name of an environment variable"))
            }
            Some(("env", name)) => Ok(Self::Env(name.to_owned())),
            // The text may be the secret itself: the error must not repeat it.
            _ => Err("this is no source of a secret; write \"file:PATH\" or \"env:NAME\"".into()),
        }
    }

    /// Reads the secret's text: of a file, only the first `most` bytes. A larger
    /// `most` than a secret may have detects files that are too long. Only its
    /// owner may have access to the file.
    ///
    /// # Errors
    /// Names the file or the variable, never its content.
    pub(crate) fn read(&self, most: usize) -> io::Result<Zeroizing<String>> {
        let text = match self {
            Self::File(file) => read_file(file, most),
            Self::Env(name) => match env::var(name) {
                Ok(text) => Ok(Zeroizing::new(text)),
                // The error itself would show the variable's value.
                Err(env::VarError::NotUnicode(_)) => Err(io::Error::other("is not UTF-8")),
                Err(error) => Err(io::Error::other(error)),
            },
        };
        text.map_err(|error| io::Error::new(error.kind(), format!("{self}: {error}")))
    }
}

impl fmt::Display for SecretSource {
    /// Shows the path or the variable's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.display().fmt(f),
            Self::Env(name) => f.write_str(name),
        }
    }
}

fn read_file(file: &Path, most: usize) -> io::Result<Zeroizing<String>> {
    // The capacity covers the whole text: growing would leave copies of the
    // secret.
    let mut text = Zeroizing::new(String::with_capacity(most + 1));
    secret_file::open(file)?
        .take(most as u64)
        .read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_read_from_a_file_of_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let source = SecretSource::File(file.clone());
        fs::write(&file, "0123456789abcdef\n").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(*source.read(1024).unwrap(), "0123456789abcdef\n");
        assert_eq!(*source.read(4).unwrap(), "0123");
        fs::set_permissions(&file, Permissions::from_mode(0o604)).unwrap();
        let error = source.read(1024).unwrap_err().to_string();
        assert!(
            error.contains("token: others may read it (mode 604)"),
            "{error}"
        );
        fs::remove_file(&file).unwrap();
        let error = source.read(1024).unwrap_err().to_string();
        assert!(error.contains("token: No such file"), "{error}");
        let missing = SecretSource::Env("SEKISHO_TEST_UNSET".into());
        let error = missing.read(1024).unwrap_err().to_string();
        assert!(
            error.contains("SEKISHO_TEST_UNSET: environment variable not found"),
            "{error}"
        );
    }
}
