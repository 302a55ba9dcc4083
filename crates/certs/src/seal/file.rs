//! The key file: made once, read, and changed whole or not at all.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::process;

use zeroize::Zeroizing;

use super::{KeyError, KeyRing, source, text};

impl KeyRing {
    /// Makes a key file with a new key, for its owner only; never overwrites.
    ///
    /// # Errors
    /// [`KeyError::Exists`], or what the file system says.
    pub fn create_file(path: &Path) -> Result<Self, KeyError> {
        let fault = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => KeyError::Exists(path.to_owned()),
            _ => KeyError::File(path.to_owned(), error),
        };
        let key = text::generate();
        // Written whole before it has its name: a run that is killed leaves no
        // half a key. A link, unlike a rename, never replaces.
        let fresh = beside(path);
        let made = write_durably(&key, &fresh).and_then(|()| fs::hard_link(&fresh, path));
        let removed = fs::remove_file(&fresh);
        made.and(removed)
            .and_then(|()| sync_folder(path))
            .map_err(fault)?;
        text::parse(&key, &path.display().to_string())
    }

    /// Adds a new key at the end of a key file, whole or not at all; gives its
    /// id. Owner and mode stay.
    ///
    /// # Errors
    /// As [`super::KeySource::load`]; also [`KeyError::Busy`] and
    /// [`KeyError::Owner`].
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
    contents(&file, path)
}

fn change<T>(
    path: &Path,
    edit: impl FnOnce(&str) -> (Zeroizing<String>, T),
) -> Result<T, KeyError> {
    // Behind a link: the link stays one.
    let path = &fs::canonicalize(path).map_err(|error| missing_or(path, error))?;
    let fault = |error| KeyError::File(path.clone(), error);
    let (file, metadata) = open(path)?;
    // Two changes at once would lose one of the keys.
    file.try_lock().map_err(|error| match error {
        fs::TryLockError::WouldBlock => KeyError::Busy(path.clone()),
        fs::TryLockError::Error(error) => fault(error),
    })?;
    if fs::metadata(path).map_err(fault)?.ino() != metadata.ino() {
        // The holder of the lock before this one has put another file in its
        // place.
        return Err(KeyError::Busy(path.clone()));
    }
    let (text, done) = edit(&contents(&file, path)?);
    // A text that can't be read again is never put in place.
    text::parse(&text, &path.display().to_string())?;
    let fresh = beside(path);
    let replaced = write_durably(&text, &fresh)
        .map_err(fault)
        .and_then(|()| keep_owner(&fresh, &metadata).map_err(|_| KeyError::Owner(path.clone())))
        .and_then(|()| fs::rename(&fresh, path).map_err(fault));
    if replaced.is_err() {
        // The new file holds keys. It may not even exist.
        let _ = fs::remove_file(&fresh);
    }
    replaced?;
    sync_folder(path).map_err(fault)?;
    Ok(done)
}

/// Gives the new file owner and mode of the old one: the server may run as
/// another user than the command.
fn keep_owner(fresh: &Path, old: &Metadata) -> io::Result<()> {
    let new = fs::metadata(fresh)?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        chown(fresh, Some(old.uid()), Some(old.gid()))?;
    }
    fs::set_permissions(fresh, old.permissions())
}

fn beside(path: &Path) -> PathBuf {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}.new", process::id()));
    fresh.into()
}

fn write_durably(text: &str, path: &Path) -> io::Result<()> {
    // A file that an earlier run left holds no key in use.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Syncs the folder: a file's name is durable only with it.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn open(path: &Path) -> Result<(File, Metadata), KeyError> {
    let file = File::open(path).map_err(|error| missing_or(path, error))?;
    let metadata = file
        .metadata()
        .map_err(|error| KeyError::File(path.to_owned(), error))?;
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed(path.to_owned(), mode));
    }
    Ok((file, metadata))
}

fn missing_or(path: &Path, error: io::Error) -> KeyError {
    match error.kind() {
        io::ErrorKind::NotFound => KeyError::Missing(path.to_owned()),
        _ => KeyError::File(path.to_owned(), error),
    }
}

fn contents(file: &File, path: &Path) -> Result<Zeroizing<String>, KeyError> {
    let bytes = source::read(file).map_err(|error| KeyError::File(path.to_owned(), error))?;
    source::to_text(&bytes, &path.display().to_string())
}

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
        assert!(matches!(nowhere, Err(KeyError::File(..))));
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
        assert!(matches!(error, KeyError::Busy(_)), "{error}");
        drop(other);
        KeyRing::extend_file(&path).unwrap();
    }
}
