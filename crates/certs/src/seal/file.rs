//! The key file: made once, read, and changed whole or not at all.

use std::fmt::Display;
use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use tempfile::{Builder, NamedTempFile};
use zeroize::Zeroizing;

use super::{KeyError, KeyRing, source, text};

impl KeyRing {
    /// Makes a key file with a new key, for its owner only; never overwrites.
    ///
    /// # Errors
    /// [`KeyError::Exists`], or what the file system says.
    pub fn create_file(path: &Path) -> Result<Self, KeyError> {
        let (key, _) = text::extend("");
        // Written whole before it has its name: a run that is killed leaves no
        // half a key.
        let made = write_beside(&key, path).and_then(|fresh| {
            fresh.persist_noclobber(path)?;
            sync_folder(path)
        });
        made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => KeyError::Exists(path.to_owned()),
            _ => unusable(path, error),
        })?;
        text::parse(&key, path.display())
    }

    /// Adds a new key at the end of a key file, whole or not at all; gives its
    /// id. Owner and mode stay.
    ///
    /// # Errors
    /// As [`super::KeySource::load`]; also while another command changes the
    /// file, and for another user than its owner.
    pub fn extend_file(path: &Path) -> Result<u32, KeyError> {
        change(path, text::extend)
    }

    /// Takes a key out of a key file, in the same way. The last key stays.
    ///
    /// # Errors
    /// As [`KeyRing::extend_file`].
    pub fn shorten_file(path: &Path, id: u32) -> Result<(), KeyError> {
        change(path, |text| (text::without(text, id), ()))
    }
}

/// Reads a key file, which only its owner may read.
pub(super) fn read(path: &Path) -> Result<Zeroizing<String>, KeyError> {
    let (file, _) = open(path)?;
    source::read(file).map_err(|error| unusable(path, error))
}

fn change<T>(
    path: &Path,
    edit: impl FnOnce(&str) -> (Zeroizing<String>, T),
) -> Result<T, KeyError> {
    // Behind a link: the link stays one.
    let path = &fs::canonicalize(path).map_err(|error| missing_or(path, error))?;
    let fault = |error| unusable(path, error);
    let (file, old) = open(path)?;
    // Two changes at once would lose one of the keys.
    match file.try_lock() {
        Err(fs::TryLockError::Error(error)) => return Err(fault(error)),
        Ok(()) if fs::metadata(path).map_err(fault)?.ino() == old.ino() => {}
        // The lock is held, or its last holder has put another file in place.
        _ => {
            let what = "it is being changed by another command; try again";
            return Err(unusable(path, what));
        }
    }
    let (text, done) = edit(&source::read(&file).map_err(fault)?);
    // A text that can't be read again is never put in place.
    text::parse(&text, path.display())?;
    let fresh = write_beside(&text, path).map_err(fault)?;
    // The server may run as another user than the command.
    let kept = chown(fresh.path(), Some(old.uid()), Some(old.gid()));
    kept.and_then(|()| fs::set_permissions(fresh.path(), old.permissions()))
        .map_err(|_| {
            unusable(
                path,
                "it belongs to another user; run this as its owner, or as root",
            )
        })?;
    let replaced = fresh.persist(path).map_err(|error| error.error);
    replaced.and_then(|_| sync_folder(path)).map_err(fault)?;
    Ok(done)
}

/// Writes a file for its owner beside another, on the same file system. Dropped
/// without a name of its own, it is removed.
fn write_beside(text: &str, path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().unwrap_or_default();
    let mut fresh = Builder::new()
        .prefix(name)
        .suffix(".new")
        .tempfile_in(folder(path))?;
    fresh.write_all(text.as_bytes())?;
    fresh.as_file().sync_all()?;
    Ok(fresh)
}

/// Syncs the folder: a file's name is durable only with it.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn open(path: &Path) -> Result<(File, Metadata), KeyError> {
    let file = File::open(path).map_err(|error| missing_or(path, error))?;
    let metadata = file.metadata().map_err(|error| unusable(path, error))?;
    match metadata.mode() & 0o777 {
        mode if mode & 0o077 != 0 => {
            let path = path.display();
            let what = format_args!("others may read it (mode {mode:04o}); run: chmod 600 {path}");
            Err(KeyError::unusable(&path, what))
        }
        _ => Ok((file, metadata)),
    }
}

fn missing_or(path: &Path, error: io::Error) -> KeyError {
    match error.kind() {
        io::ErrorKind::NotFound => unusable(path, MISSING),
        _ => unusable(path, error),
    }
}

fn unusable(path: &Path, what: impl Display) -> KeyError {
    KeyError::unusable(path.display(), what)
}

const MISSING: &str = "\
it is missing; put back the one that the store was made with: without it the keys in the store \
can't be opened";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::super::KeySource;
    use super::*;

    #[test]
    fn a_key_file_is_made_once_and_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let made = KeyRing::create_file(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let before = fs::read(&path).unwrap();
        let again = KeyRing::create_file(&path).unwrap_err();
        assert!(matches!(again, KeyError::Exists(_)), "{again}");
        assert_eq!(fs::read(&path).unwrap(), before);
        let loaded = KeySource::File(path).load().unwrap();
        assert_eq!(loaded.first(), made.first());
    }

    #[test]
    fn a_bad_key_file_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let fails = |wanted: &str| {
            let error = KeySource::File(path.clone())
                .load()
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("master.key") && error.contains(wanted),
                "{error}"
            );
        };
        fails("is missing");
        KeyRing::create_file(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        fails("chmod 600");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, [0xff; 10]).unwrap();
        fails("no text");
        fs::write(&path, vec![b'#'; source::MAX_KEY_TEXT + 1]).unwrap();
        fails("over 64 KiB");
        fs::write(&path, "").unwrap();
        fails("no key");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        fails("directory");
        let nowhere = KeyRing::create_file(&folder.path().join("no/master.key"));
        assert!(matches!(nowhere, Err(KeyError::Unusable { .. })));
    }

    #[test]
    fn a_key_is_added_whole_and_for_the_same_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let first = KeyRing::create_file(&path).unwrap().first();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        let link = folder.path().join("link.key");
        symlink(&path, &link).unwrap();
        let added = KeyRing::extend_file(&link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o400);
        let load = || KeySource::File(link.clone()).load().unwrap();
        assert_eq!(load().ids().collect::<Vec<_>>(), [first, added]);
        KeyRing::shorten_file(&path, first).unwrap();
        assert_eq!(load().ids().collect::<Vec<_>>(), [added]);
        // The last key stays.
        let before = fs::read(&path).unwrap();
        assert!(KeyRing::shorten_file(&path, added).is_err());
        assert_eq!(fs::read(&path).unwrap(), before);
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 2, "nothing is left beside it");
    }

    #[test]
    fn one_command_changes_a_key_file_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        KeyRing::create_file(&path).unwrap();
        let other = File::open(&path).unwrap();
        other.lock().unwrap();
        let error = KeyRing::extend_file(&path).unwrap_err();
        assert!(error.to_string().contains("try again"), "{error}");
        drop(other);
        KeyRing::extend_file(&path).unwrap();
    }
}
