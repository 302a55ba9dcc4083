//! Puts the pairs of an archive together: halves wait for each other, within bounds.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Read;
use std::iter;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::check::too_large;
use super::layout::{Layout, Part, Role};
use super::source::{Half, Pair, Pairs, Refusal};
use super::tar::{Content, Entry, Tar};

/// Lists the pairs of an archive as its files come.
pub(super) fn pairs(place: &Path, reader: impl Read + Send + 'static, layout: Layout) -> Pairs {
    let mut archive = Archive {
        place: place.to_owned(),
        tar: Some(Tar(reader)),
        layout,
        waiting: BTreeMap::new(),
        bytes: 0,
        links: 0,
    };
    Box::new(iter::from_fn(move || archive.next_pair()))
}

struct Archive<R> {
    place: PathBuf,
    /// Archive; none once its end was reached.
    tar: Option<Tar<R>>,
    layout: Layout,
    /// Halves by the path of their pair's chain.
    waiting: BTreeMap<PathBuf, Waiting>,
    /// Bytes of all halves that wait, and of their paths.
    bytes: usize,
    /// Links that stand where halves would.
    links: u64,
}

/// Half of a pair that came first.
struct Waiting {
    part: Part,
    bytes: Zeroizing<Vec<u8>>,
}

impl<R: Read> Archive<R> {
    fn next_pair(&mut self) -> Option<Result<Pair, Refusal>> {
        while let Some(tar) = &mut self.tar {
            let found = match tar.next_file() {
                Ok(Some(entry)) => self.add(entry),
                Ok(None) => {
                    self.tar = None;
                    self.end()
                }
                Err(error) => self.stop(&error.to_string()),
            };
            if found.is_some() {
                return found;
            }
        }
        // The halves that are left lack their other ones.
        while let Some((chain, Waiting { part, .. })) = self.waiting.pop_first() {
            let key = part.key.unwrap_or_default();
            match part.role {
                Role::Chain => return Some(Err(Refusal::alone(self.at(&chain), &key))),
                Role::Key if self.layout.refuses_lonely_keys() => {
                    return Some(Err(Refusal::alone(self.at(&key), &chain)));
                }
                Role::Key => {}
            }
        }
        None
    }

    /// Takes a file; returns the pair that it completes.
    fn add(&mut self, entry: Entry) -> Option<Result<Pair, Refusal>> {
        let part = self.layout.part(&entry.name);
        let part = part.filter(|_| !is_hidden(&entry.name))?;
        let place = self.at(&entry.name);
        let bytes = match entry.content {
            Content::Bytes(bytes) => bytes,
            Content::TooLarge => return Some(Err(too_large(&place))),
            Content::LeadsOut => {
                let group = "a name leads out of the archive";
                return Some(Err(Refusal::new(place, group, "is no name inside of it")));
            }
            Content::Link => {
                self.links += 1;
                return None;
            }
        };
        let Some(key) = &part.key else {
            return Some(Ok(Pair::new(part.names, Half::Bytes(place, bytes), None)));
        };
        let (chain_place, key_place) = (self.at(&part.chain), self.at(key));
        let other = self.waiting.remove(&part.chain);
        self.bytes -= other.as_ref().map_or(0, size);
        let (chain, key) = match (part.role, other) {
            (Role::Chain, Some(key)) if key.part.role == Role::Key => (bytes, key.bytes),
            (Role::Key, Some(chain)) if chain.part.role == Role::Chain => (chain.bytes, bytes),
            // The first of its pair, or in the place of one that came before.
            _ => return self.wait(Waiting { part, bytes }),
        };
        let (chain, key) = (Half::Bytes(chain_place, chain), Half::Bytes(key_place, key));
        Some(Ok(Pair::new(part.names, chain, Some(key))))
    }

    fn wait(&mut self, half: Waiting) -> Option<Result<Pair, Refusal>> {
        self.bytes += size(&half);
        self.waiting.insert(half.part.chain.clone(), half);
        let is_full = self.waiting.len() > MAX_WAITING || self.bytes > MAX_WAITING_BYTES;
        is_full.then(|| self.stop(OUT_OF_REACH)).flatten()
    }

    /// Ends the archive before its end.
    fn stop(&mut self, why: &str) -> Option<Result<Pair, Refusal>> {
        self.tar = None;
        let group = "the rest of the archive can't be read";
        Some(Err(Refusal::new(&self.place, group, why)))
    }

    /// Tells of links, once the archive has ended.
    fn end(&self) -> Option<Result<Pair, Refusal>> {
        let reason = format!(
            "{} links were passed over; make the archive with 'tar -ch --hard-dereference'",
            self.links
        );
        let refusal = Refusal::new(&self.place, "links are not followed", reason);
        (self.links > 0).then_some(Err(refusal))
    }

    /// Returns the place of a file, `ARCHIVE: NAME`.
    fn at(&self, name: &Path) -> PathBuf {
        let mut place = self.place.clone().into_os_string();
        place.push(": ");
        place.push(name);
        place.into()
    }
}

/// Returns the bytes that a half takes. Its path is there three times: as its key, as the chain's
/// and as the key's.
fn size(half: &Waiting) -> usize {
    half.bytes.len() + 3 * half.part.chain.as_os_str().len()
}

/// Returns whether a file or its folder begins with a dot. Folders above may be the source's own,
/// such as `.acme.sh`.
fn is_hidden(name: &Path) -> bool {
    let last = name.components().rev().take(2);
    let mut names = last.map(|part| part.as_os_str().as_encoded_bytes());
    names.any(|name| name.len() > 1 && name.starts_with(b"."))
}

/// Pairs that wait for a half, and their bytes: folders that are not sorted lie apart.
const MAX_WAITING: usize = 32_768;
const MAX_WAITING_BYTES: usize = 32 << 20;
const OUT_OF_REACH: &str = "the halves of 32768 pairs, or of 32 MiB, lie too far from each \
                            other; make the archive with 'tar --sort=name'";
