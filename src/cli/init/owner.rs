//! User of the service, to whom root gives the store and its key.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::OFlags;
use rustix::process::geteuid;

use crate::terminal::failure::Result;

/// User of this machine.
#[derive(Debug)]
pub(super) struct User {
    pub(super) name: String,
    id: u32,
    group: u32,
}

impl User {
    /// Finds a user in the list of this machine.
    pub(super) fn find(name: &str) -> Result<Option<Self>> {
        let users = fs::read_to_string(USERS).context(USERS)?;
        Ok(users.lines().find_map(|line| Self::parse(line, name)))
    }

    /// Reads a line of passwd(5) if it is that of the name.
    fn parse(line: &str, name: &str) -> Option<Self> {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        let id = fields.nth(1)?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let name = name.to_owned();
        Some(Self { name, id, group })
    }

    /// Gives a file or folder that root has just made to this user. A user who owns the
    /// folder could have put a link in its place: that is refused.
    fn own(&self, path: &Path) -> io::Result<()> {
        let mut options = File::options();
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = options.read(true).custom_flags(flags).open(path)?;
        let found = file.metadata()?;
        if found.uid() != geteuid().as_raw() || found.is_file() && found.nlink() != 1 {
            return Err(io::Error::other("it was replaced meanwhile"));
        }
        fchown(&file, Some(self.id), Some(self.group))
    }
}

/// What is not there yet, and is given to the user of the service once it is made.
pub(super) struct Made(Vec<PathBuf>);

impl Made {
    /// Makes the folder of the store, for its owner alone, and notes which of the files
    /// are missing.
    pub(super) fn begin(folder: &Path, files: Vec<PathBuf>) -> Result<Self> {
        let mut paths = files;
        // The folder comes last: until then, its new owner can't move what is in it.
        paths.push(folder.to_owned());
        paths.retain(|path| fs::symlink_metadata(path).is_err());
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(folder);
        made.with_context(|| folder.display().to_string())?;
        Ok(Self(paths))
    }

    /// Gives what was made to the user. A file that was not needed is none.
    pub(super) fn give_to(&self, user: &User) -> Result<()> {
        for path in &self.0 {
            match user.own(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| path.display().to_string());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Finds the user of the service, to whom root gives what it makes: the named one, else
/// the usual one, if there is one.
///
/// # Errors
/// If the named one is missing, or the caller is not root.
pub(super) fn user(named: Option<&str>) -> Result<Option<User>> {
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

/// User of the service, as docs/operating.md has it.
pub(super) const SERVICE: &str = "sekisho";
const USERS: &str = "/etc/passwd";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_the_whole_name() {
        let line = "sekisho:x:998:997:HTTPS server:/var/lib/sekisho:/usr/sbin/nologin";
        let user = User::parse(line, "sekisho").expect("a user");
        assert_eq!((user.id, user.group), (998, 997));
        for name in ["sekish", "sekisho2", "x", ""] {
            assert!(User::parse(line, name).is_none(), "{name}");
        }
        assert!(User::parse("sekisho:x:many:997::/:", "sekisho").is_none());
    }
}
