//! A store of plain files, as certbot and others keep them: `files:PATTERN`.

mod pattern;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use zeroize::Zeroizing;

use self::pattern::Pattern;
use super::threads::Threads;
use super::{Answer, BoxFuture, Found, Result, Store, StoreError};
use crate::credential::{Credential, CredentialId};
use crate::host::{HostName, HostPattern};
use crate::record::HostRecord;

/// A folder of certificates and keys. It is only read, symbolic links are
/// followed, and every change of a file is seen by the next call.
///
/// The files of a host are absent if neither exists. A certificate without
/// its key, or with another's, is read again for a quarter of a second, since
/// a renewal may just be writing them; then it is an error.
#[derive(Debug)]
pub struct Files {
    pattern: Arc<Pattern>,
    threads: Threads<()>,
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
        Ok(Self {
            pattern: Arc::new(pattern),
            threads,
        })
    }
}

impl Store for Files {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async move {
            let mut pauses = PAUSES.into_iter();
            loop {
                let (pattern, name) = (Arc::clone(&self.pattern), name.clone());
                let read = self.threads.run(move |()| find(&pattern, &name)).await?;
                let unfit = match read {
                    Reading::Answer(answer) => return Ok(answer),
                    Reading::Unfit(why) => why,
                };
                match pauses.next() {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(StoreError::Corrupt(unfit.into())),
                }
            }
        })
    }
}

/// What one look at the files gave.
enum Reading {
    Answer(Answer),
    /// Half a pair, or none that fits: says what, and where.
    Unfit(String),
}

/// The exact name's files, else the wildcard's one label above.
fn find(pattern: &Pattern, name: &HostName) -> Result<Reading> {
    let exact = Some(HostPattern::from(name));
    for host in [exact, name.wildcard()].into_iter().flatten() {
        if let Some(reading) = pair(pattern, host)? {
            return Ok(reading);
        }
    }
    // A folder that is not there, or not mounted, says nothing of a host.
    for folder in pattern.folders() {
        let shown = folder.display();
        match folder.metadata() {
            Ok(there) if there.is_dir() => {}
            Ok(_) => return Err(unavailable(format!("{shown} is no folder"))),
            Err(error) => return Err(unavailable(format!("{shown}: {error}"))),
        }
    }
    Ok(Reading::Answer(Answer::Absent))
}

/// None if neither file is there.
fn pair(pattern: &Pattern, host: HostPattern) -> Result<Option<Reading>> {
    let (chain_path, key_path) = (pattern.chain(&host), pattern.key(&host));
    let (chain, key) = match (read(&chain_path)?, read(&key_path)?) {
        (None, None) => return Ok(None),
        (Some(chain), Some(key)) => (chain, key),
        (chain, _) => {
            let (there, missing) = match chain {
                Some(_) => (&chain_path, &key_path),
                None => (&key_path, &chain_path),
            };
            let (there, missing) = (there.display(), missing.display());
            let text = format!("host {host}: {there} is there, but {missing} is missing");
            return Ok(Some(Reading::Unfit(text)));
        }
    };
    let credential = match Credential::parse_stored(&chain, &key) {
        Ok(credential) => credential,
        Err(why) => {
            let (chain, key) = (chain_path.display(), key_path.display());
            let text = format!("host {host}: {chain} with {key}: {why}");
            return Ok(Some(Reading::Unfit(text)));
        }
    };
    let (id, version) = identity(&chain, &key);
    let mut stored = credential.into_stored(id);
    stored.version = version;
    let mut record = HostRecord::new(host);
    record.references.set(stored.key_type, Some(id));
    record.version = version;
    Ok(Some(Reading::Answer(Answer::Found(Box::new(Found {
        record,
        credentials: vec![stored],
        shadowed: true,
        fresh_for: None,
    })))))
}

/// Reads a file; none if it is not there. What is wrong with this one file
/// blames the host; all else, the store.
fn read(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>> {
    let corrupt = |what: &str| StoreError::Corrupt(format!("{} {what}", path.display()).into());
    match read_bounded(path) {
        Ok(bytes) if bytes.len() > MAX_FILE => {
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
            _ => Err(unavailable(format!("{}: {error}", path.display()))),
        },
    }
}

/// The file's bytes, or one more than is allowed.
fn read_bounded(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
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
    let mut bytes = Zeroizing::new(Vec::with_capacity(size.min(MAX_FILE) + 1));
    file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Equal for equal files only, so that a renewal is another credential.
fn identity(chain: &[u8], key: &[u8]) -> (CredentialId, u64) {
    let mut digest = Context::new(&SHA256);
    digest.update(&(chain.len() as u64).to_be_bytes());
    digest.update(chain);
    digest.update(key);
    let digest = digest.finish();
    let number = |at: usize| {
        let bytes = digest.as_ref()[at..at + 8].try_into();
        u64::from_be_bytes(bytes.expect("8 of 32 bytes"))
    };
    (CredentialId::from_u64(number(0)), number(8))
}

fn unavailable(text: String) -> StoreError {
    StoreError::Unavailable(text.into())
}

/// A disk or a network file system answers several reads at a time.
const THREADS: usize = 4;
/// What waits for a thread; a queue that is longer would outlive deadlines.
const QUEUE: usize = 1024;
/// Far more than a chain of ten certificates.
const MAX_FILE: usize = 1 << 20;
/// How long a renewal has between its two files, a quarter of a second in
/// all: well within the deadline of a call.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(190),
];
