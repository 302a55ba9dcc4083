//! User of the service, to whom root gives the store and its key: the owner of their folder.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{AtFlags, Mode, OFlags, openat, statat};
use rustix::process::geteuid;

use crate::terminal::failure::Result;

/// User of this machine.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    id: u32,
    group: u32,
}

impl User {
    /// Finds a user in the list of this machine.
    fn find(name: &str) -> Result<Option<Self>> {
        let users = fs::read_to_string(USERS).context(USERS)?;
        let mut users = users.lines().filter_map(Self::parse);
        Ok(users.find(|user| user.name == name))
    }

    /// Finds the owner of a file or folder, if root runs this and it belongs to another
    /// user.
    pub(crate) fn other_owner(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        let (id, group) = (found.uid(), found.gid());
        if !geteuid().is_root() || id == geteuid().as_raw() {
            return None;
        }
        let users = fs::read_to_string(USERS).unwrap_or_default();
        let mut users = users.lines().filter_map(Self::parse);
        let name = users.find(|user| user.id == id).map(|user| user.name);
        Some(Self {
            name: name.unwrap_or_else(|| id.to_string()),
            id,
            group,
        })
    }

    /// Reads a line of passwd(5).
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        let id = fields.nth(1)?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        Some(Self { name, id, group })
    }

    /// Gives an open file or folder that root has just made to this user.
    fn own(&self, made: &File) -> io::Result<()> {
        fchown(made, Some(self.id), Some(self.group))
    }
}

/// Folder of the store, open, so that nobody puts another one in its place.
pub(crate) struct Folder {
    path: PathBuf,
    open: File,
    /// Root has just made it.
    is_new: bool,
    /// Files of the store that were missing.
    missing: Vec<PathBuf>,
}

impl Folder {
    /// Makes the folder, for its owner alone, and notes which of the files are missing. A
    /// folder that is there must be the user's.
    ///
    /// # Errors
    /// Also if the folder belongs to another user.
    pub(crate) fn make(path: &Path, files: Vec<PathBuf>, user: Option<&User>) -> Result<Self> {
        let named = || path.display().to_string();
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(named)?;
        }
        let made = DirBuilder::new().mode(0o700).create(path);
        let is_new = made.is_ok();
        if let Err(error) = made
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(error).with_context(named);
        }
        // The owner of the folder above could have put a link in place of a new folder.
        let links = if is_new {
            OFlags::NOFOLLOW
        } else {
            OFlags::empty()
        };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | links;
        let open = rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from);
        let open = File::from(open.with_context(named)?);
        let owner = open.metadata().with_context(named)?.uid();
        let expected = match user {
            Some(user) if !is_new => user.id,
            _ => geteuid().as_raw(),
        };
        if let Some(user) = user
            && owner != expected
        {
            let (path, name) = (path.display(), &user.name);
            bail!(
                "{path} belongs to another user than {name}: name a folder of its own by --state; \
                 if this is one, 'chown -R {name} {path}' gives it to {name}"
            );
        }
        Ok(Self::of(path, open, files, is_new))
    }

    /// Opens the folder of files that root is about to make, and its owner, if that is
    /// another user.
    pub(crate) fn of_another(path: &Path, files: Vec<PathBuf>) -> Result<Option<(Self, User)>> {
        let Some(user) = User::other_owner(path) else {
            return Ok(None);
        };
        let open = File::open(path).with_context(|| path.display().to_string())?;
        Ok(Some((Self::of(path, open, files, false), user)))
    }

    fn of(path: &Path, open: File, files: Vec<PathBuf>, is_new: bool) -> Self {
        let mut missing = files;
        missing.retain(|file| statat(&open, name_of(file), AtFlags::SYMLINK_NOFOLLOW).is_err());
        Self {
            path: path.to_owned(),
            missing,
            open,
            is_new,
        }
    }

    /// Gives the files that are new to the user, and the folder if it is. A file that was
    /// not needed is none.
    pub(crate) fn give_to(&self, user: &User) -> Result<()> {
        for file in &self.missing {
            let given = self.file(name_of(file), user);
            match given.and_then(|file| user.own(&file)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| file.display().to_string());
                }
                _ => {}
            }
        }
        // The folder comes last: until then, its new owner can't move what is in it.
        if self.is_new {
            let given = user.own(&self.open);
            given.with_context(|| self.path.display().to_string())?;
        }
        Ok(())
    }

    /// Opens a file that root has just made in the folder. The owner of the folder could
    /// have put a link in its place: that is refused.
    fn file(&self, name: &OsStr, user: &User) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.open, name, flags, Mode::empty())?);
        let found = file.metadata()?;
        // The file may have been given before.
        let owners = [geteuid().as_raw(), user.id];
        let is_ours = owners.contains(&found.uid()) && found.is_file() && found.nlink() == 1;
        match is_ours {
            true => Ok(file),
            false => Err(io::Error::other("it was replaced meanwhile")),
        }
    }
}

fn name_of(file: &Path) -> &OsStr {
    file.file_name().unwrap_or_default()
}

/// Finds the user of the service, to whom root gives what it makes: the named one, else
/// the usual one, if there is one.
///
/// # Errors
/// If the named one is missing, or the caller is not root.
pub(crate) fn user(named: Option<&str>) -> Result<Option<User>> {
    if !geteuid().is_root() {
        return match named {
            Some(_) => bail!("--user: only root can give files to another user"),
            None => Ok(None),
        };
    }
    match (User::find(named.unwrap_or(SERVICE))?, named) {
        (None, Some(name)) => bail!("--user: there is no user {name} on this machine"),
        (found, _) => Ok(found),
    }
}

/// User of the service, as packaging/sekisho.service has it.
pub(crate) const SERVICE: &str = "sekisho";
const USERS: &str = "/etc/passwd";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_users_is_read() {
        let line = "sekisho:x:998:997:HTTPS server:/var/lib/sekisho:/usr/sbin/nologin";
        let user = User::parse(line).expect("a user");
        assert_eq!((&*user.name, user.id, user.group), ("sekisho", 998, 997));
        assert!(User::parse("sekisho:x:many:997::/:").is_none());
        assert!(User::parse("sekisho").is_none());
    }
}
