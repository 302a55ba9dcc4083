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
pub(crate) use self::pattern::Pattern;
use crate::fault::unavailable;
use crate::pem_pair::{Bytes, Half, MAX_HALF, PairRead, pair, read_until_fit};
use crate::threads::Threads;
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::seal::OpenKey;
use sekisho_certs::store::{Answer, BoxFuture, Result, Store, StoreError};

/// A folder of certificates and keys, which is only read. Symbolic links are
/// followed. The next call sees every change of a file.
///
/// The files of a host are absent if neither exists, in a folder that holds
/// something and is the one of before: an empty one, or another, may be a mount
/// point without its file system, and counts as out of reach. A certificate without
/// its key, or with another's, is read again for a quarter of a second, since
/// a renewal may just be writing them; then it is an error.
#[derive(Debug)]
pub struct Files {
    layout: Arc<Layout>,
    threads: Threads<()>,
}

#[derive(Debug)]
struct Layout {
    pattern: Pattern,
    folders: Folders,
}

impl Files {
    /// Reads what lies under the pattern.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn new(pattern: Pattern) -> Result<Self> {
        let threads = Threads::start("files", [(); THREADS], QUEUE)
            .map_err(|error| unavailable(format!("no thread for files: {error}")))?;
        let folders = Folders::new(pattern.folders());
        Ok(Self {
            layout: Arc::new(Layout { pattern, folders }),
            threads,
        })
    }
}

impl Store for Files {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<OpenKey>>> {
        Box::pin(read_until_fit(move || {
            let (layout, name) = (Arc::clone(&self.layout), name.clone());
            self.threads.run(move |()| layout.find(&name))
        }))
    }
}

impl Layout {
    /// Reads the exact name's files, else the wildcard's one label above.
    fn find(&self, name: &HostName) -> Result<PairRead> {
        let before = self.folders.identify()?;
        let exact = Some(HostPattern::from(name));
        for host in [exact, name.wildcard()].into_iter().flatten() {
            if let Some(reading) = self.read_pair(&host)? {
                if matches!(reading, PairRead::Answer(_)) {
                    self.folders.found(before, host);
                }
                return Ok(reading);
            }
        }
        let is_there = |host: &HostPattern| self.pattern.chain(host).exists();
        self.folders.check(before, is_there)?;
        Ok(PairRead::Answer(Answer::absent()))
    }

    /// Reads both files of a host; none if neither is there.
    fn read_pair(&self, host: &HostPattern) -> Result<Option<PairRead>> {
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

/// Reads a file; none if it is not there. A fault of this file blames the host,
/// any other fault the store.
fn read(path: &Path) -> Result<Option<Bytes>> {
    let corrupt = |what: &str| StoreError::Corrupt(format!("{} {what}", path.display()).into());
    match read_bounded(path, MAX_HALF) {
        Ok(bytes) if bytes.len() > MAX_HALF => {
            Err(corrupt("has over 1 MiB: no certificate or key"))
        }
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.kind() {
            // A client may ask for a name that no file can have.
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

/// Reads the file's bytes, or one more than `most`.
///
/// # Errors
/// [`io::ErrorKind::IsADirectory`] for all that is no regular file, else the system's.
pub fn read_bounded(path: &Path, most: usize) -> io::Result<Bytes> {
    // Opening a FIFO would wait for a writer, and keep the thread.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    // Reserved at once: growing would leave copies of a key.
    let mut bytes = Zeroizing::new(Vec::with_capacity(size.min(most) + 1));
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads at a time: a disk or a network file system answers several.
const THREADS: usize = 4;
/// Calls that wait for a thread: a longer queue would outlive their deadlines.
const QUEUE: usize = 1024;
