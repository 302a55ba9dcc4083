//! A store of plain files, as certbot and others keep them: `files:PATTERN`.

mod folders;
mod pattern;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{self, Path};
use std::sync::Arc;

use zeroize::Zeroizing;

use self::folders::Folders;
use self::pattern::Pattern;
use crate::pair::{Bytes, Half, MAX_HALF, Reading, pair, settled};
use crate::threads::Threads;
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::store::{Answer, BoxFuture, Result, Store, StoreError};

/// A folder of certificates and keys. It is only read, symbolic links are
/// followed, and every change of a file is seen by the next call.
///
/// The files of a host are absent if neither exists, in a folder that holds
/// something and is the one of before: an empty one, or another, may be a mount
/// point without its file system, and counts as out of reach. A certificate without
/// its key, or with another's, is read again for a quarter of a second, since
/// a renewal may just be writing them; then it is an error.
#[derive(Debug)]
pub struct Files {
    place: Arc<Place>,
    threads: Threads<()>,
}

#[derive(Debug)]
struct Place {
    pattern: Pattern,
    folders: Folders,
}

impl Files {
    /// From what stands behind `files:`. One pattern is a folder with
    /// `fullchain.pem` and `privkey.pem`, two are separated by a comma, chain
    /// first; `{host}` stands in each for the name, a wildcard being
    /// `_.example.com`. A relative pattern begins at `base`.
    ///
    /// # Errors
    /// [`StoreError::Refused`] says what is wrong with the pattern.
    pub fn new(pattern: &str, base: &Path) -> Result<Self> {
        let pattern = Pattern::parse(pattern, base)?;
        let threads = Threads::start("files", [(); THREADS], QUEUE).map_err(|error| {
            StoreError::Unavailable(format!("no thread for files: {error}").into())
        })?;
        let folders = Folders::new(pattern.folders());
        Ok(Self {
            place: Arc::new(Place { pattern, folders }),
            threads,
        })
    }
}

impl Store for Files {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(settled(move || {
            let (place, name) = (Arc::clone(&self.place), name.clone());
            self.threads.run(move |()| place.find(&name))
        }))
    }
}

impl Place {
    /// Reads the exact name's files, else the wildcard's one label above.
    fn find(&self, name: &HostName) -> Result<Reading> {
        let before = self.folders.identify()?;
        let exact = Some(HostPattern::from(name));
        for host in [exact, name.wildcard()].into_iter().flatten() {
            if let Some(reading) = self.look(&host)? {
                if matches!(reading, Reading::Answer(_)) {
                    self.folders.found(before, host);
                }
                return Ok(reading);
            }
        }
        let is_there = |host: &HostPattern| self.pattern.chain(host).exists();
        self.folders.check(before, is_there)?;
        Ok(Reading::Answer(Answer::Absent))
    }

    /// None if neither file is there.
    fn look(&self, host: &HostPattern) -> Result<Option<Reading>> {
        let (chain, key) = (self.pattern.chain(host), self.pattern.key(host));
        Ok(pair(host, half(&chain)?, half(&key)?))
    }
}

fn half(path: &Path) -> Result<Half<path::Display<'_>>> {
    Ok(Half {
        bytes: read(path)?,
        place: path.display(),
    })
}

/// Reads a file; none if it is not there. What is wrong with this one file
/// blames the host; all else, the store.
fn read(path: &Path) -> Result<Option<Bytes>> {
    let corrupt = |what: &str| StoreError::Corrupt(format!("{} {what}", path.display()).into());
    match read_bounded(path) {
        Ok(bytes) if bytes.len() > MAX_HALF => {
            Err(corrupt("has over 1 MiB: no certificate or key"))
        }
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.kind() {
            // No file can lie there; a client may ask for such a name.
            io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidFilename => Ok(None),
            io::ErrorKind::PermissionDenied => Err(corrupt("may not be read by this user")),
            io::ErrorKind::IsADirectory => Err(corrupt("is no regular file")),
            _ if error.raw_os_error() == Some(libc::ELOOP) => {
                Err(corrupt("is a symbolic link that leads back to itself"))
            }
            // A socket, or a device without a driver.
            _ if error.raw_os_error() == Some(libc::ENXIO) => Err(corrupt("is no regular file")),
            _ => Err(unavailable(format!("{}: {error}", path.display()))),
        },
    }
}

/// The file's bytes, or one more than is allowed.
fn read_bounded(path: &Path) -> io::Result<Bytes> {
    // Opening a FIFO would wait for somebody to write it, and keep the thread.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    // Room for all of it at once: growing would leave copies of a key.
    let mut bytes = Zeroizing::new(Vec::with_capacity(size.min(MAX_HALF) + 1));
    file.take(MAX_HALF as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unavailable(text: String) -> StoreError {
    StoreError::Unavailable(text.into())
}

/// A disk or a network file system answers several reads at a time.
const THREADS: usize = 4;
/// What waits for a thread; a queue that is longer would outlive deadlines.
const QUEUE: usize = 1024;
