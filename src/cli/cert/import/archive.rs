//! Puts the pairs of an archive together: halves wait for each other, within bounds.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::iter;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::check::{certificates, too_large};
use super::layout::{KeyFile, Layout, Part, Role, documents};
use super::source::{HALF_MISSING, Half, Key, Names, Pair, Pairs, Refusal};
use super::tar::{Content, Entry, Tar};

/// Archive whose files are read as they come. Each pair is known by the path of its chain.
pub(super) struct Archive {
    place: PathBuf,
    tar: Tar<Box<dyn Read + Send>>,
    /// First entries, by which the layout is recognised.
    held: VecDeque<io::Result<Entry>>,
    waiting: HashMap<PathBuf, Waiting>,
    /// Chains of pairs that wait, and of some that no longer do, the oldest first.
    order: VecDeque<PathBuf>,
    /// Bytes of all halves that wait.
    bytes: usize,
    ready: VecDeque<Result<Pair, Refusal>>,
    /// Links that stand where halves would.
    links: u64,
    has_ended: bool,
}

/// Parts of a pair that have come.
struct Waiting {
    names: Names,
    key_path: PathBuf,
    has_issuers_apart: bool,
    /// By [`Role`].
    halves: [Option<Zeroizing<Vec<u8>>>; 3],
}

impl Archive {
    pub(super) fn new(place: &Path, reader: Box<dyn Read + Send>) -> Self {
        Self {
            place: place.to_owned(),
            tar: Tar::new(reader),
            held: VecDeque::new(),
            waiting: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            ready: VecDeque::new(),
            links: 0,
            has_ended: false,
        }
    }

    /// Reads the first entries, and returns their names.
    pub(super) fn hold(&mut self) -> Vec<PathBuf> {
        let (mut names, mut bytes) = (Vec::new(), 0);
        while names.len() < MAX_HELD && bytes < MAX_HELD_BYTES {
            let Some(next) = self.tar.next_file().transpose() else {
                break;
            };
            if let Ok(entry) = &next {
                names.push(entry.name.clone());
                if let Content::Bytes(content) = &entry.content {
                    bytes += content.len();
                }
            }
            let is_last = next.is_err();
            self.held.push_back(next);
            if is_last {
                break;
            }
        }
        names
    }

    /// Lists the pairs of the layout.
    pub(super) fn pairs(mut self, layout: Layout) -> Pairs {
        Box::new(iter::from_fn(move || self.next_pair(layout)))
    }

    fn next_pair(&mut self, layout: Layout) -> Option<Result<Pair, Refusal>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if self.has_ended {
                return None;
            }
            let held = self.held.pop_front();
            match held.or_else(|| self.tar.next_file().transpose()) {
                Some(Ok(entry)) => self.add(entry, layout),
                None => self.end(layout),
                Some(Err(error)) => {
                    self.end(layout);
                    let refusal = Refusal::new(&self.place, UNREADABLE, error.to_string());
                    self.ready.push_back(Err(refusal));
                }
            }
        }
    }

    fn add(&mut self, entry: Entry, layout: Layout) {
        let place = self.place(&entry.name);
        if matches!(entry.content, Content::LeadsOut) {
            let reason = "is no name inside of the archive";
            let group = "a name leads out of the archive";
            return self.ready.push_back(Err(Refusal::new(place, group, reason)));
        }
        if is_hidden(&entry.name) {
            return;
        }
        let host = layout.document(&entry.name);
        let part = layout.part(&entry.name);
        if host.is_none() && part.is_none() {
            return;
        }
        let bytes = match entry.content {
            Content::Bytes(bytes) => bytes,
            Content::Link | Content::LeadsOut => {
                self.links += 1;
                return;
            }
            Content::TooLarge => return self.ready.push_back(Err(too_large(&place))),
        };
        match (host, part) {
            (Some(host), _) => {
                let pair = documents::pair(place, &host, &bytes);
                self.ready.push_back(pair);
            }
            (None, Some(part)) => self.add_part(&entry.name, part, bytes, layout),
            (None, None) => {}
        }
    }

    fn add_part(
        &mut self,
        name: &Path,
        part: Part,
        bytes: Zeroizing<Vec<u8>>,
        layout: Layout,
    ) {
        let chain_path = name.with_file_name(&part.chain);
        let KeyFile::Apart(key) = &part.key else {
            // A bundle of an archive has its key in it.
            let pair = Pair {
                names: part.names,
                chain: Half::Bytes(self.place(name), bytes),
                key: Key::InChain,
                issuers: None,
            };
            return self.ready.push_back(Ok(pair));
        };
        self.bytes += bytes.len();
        let key_path = name.with_file_name(key);
        let waiting = self.waiting.entry(chain_path.clone()).or_insert_with(|| {
            self.order.push_back(chain_path.clone());
            Waiting {
                names: part.names,
                key_path,
                has_issuers_apart: part.issuers.is_some(),
                halves: Default::default(),
            }
        });
        let twice = waiting.halves[part.role as usize].replace(bytes);
        self.bytes -= twice.map_or(0, |bytes| bytes.len());
        if waiting.is_complete() {
            self.release(&chain_path, layout, "");
        }
        if self.order.len() > 2 * MAX_WAITING {
            self.order.retain(|chain| self.waiting.contains_key(chain));
        }
        while self.waiting.len() > MAX_WAITING || self.bytes > MAX_WAITING_BYTES {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            self.release(&oldest, layout, OUT_OF_REACH);
        }
    }

    /// Ends the wait of a pair: it is ready, or refused since a half is missing.
    fn release(&mut self, chain_path: &Path, layout: Layout, why: &str) {
        let Some(waiting) = self.waiting.remove(chain_path) else {
            return;
        };
        self.bytes -= waiting.bytes();
        let (chain_place, key_place) = (self.place(chain_path), self.place(&waiting.key_path));
        let alone = |place: &Path, other: &Path| {
            let other = other.file_name().unwrap_or_default().to_string_lossy();
            let reason = format!("{other} is missing: {why}");
            Err(Refusal::new(place, HALF_MISSING, reason))
        };
        let released = match waiting.halves {
            [Some(chain), Some(key), issuers] => {
                let issuers = issuers.map(|issuers| Half::Bytes(chain_place.clone(), issuers));
                let chain = Half::Bytes(chain_place, chain);
                let key = Half::Bytes(key_place, key);
                Ok(Pair {
                    issuers,
                    ..Pair::new(waiting.names, chain, key)
                })
            }
            [Some(_), None, _] => alone(&chain_place, &waiting.key_path),
            [None, Some(_), _] if layout.refuses_lonely_keys() => alone(&key_place, chain_path),
            [None, _, _] => return,
        };
        self.ready.push_back(released);
    }

    fn end(&mut self, layout: Layout) {
        self.has_ended = true;
        while let Some(oldest) = self.order.pop_front() {
            self.release(&oldest, layout, "the archive has ended");
        }
        if self.links > 0 {
            let links = self.links;
            let reason = format!(
                "{links} links were passed over; make the archive with 'tar -ch' (--dereference)"
            );
            let refusal = Refusal::new(&self.place, "links are not followed", reason);
            self.ready.push_back(Err(refusal));
        }
    }

    /// Returns the place of a file, `ARCHIVE: NAME`.
    fn place(&self, name: &Path) -> PathBuf {
        let mut place = self.place.clone().into_os_string();
        place.push(": ");
        place.push(name);
        place.into()
    }
}

impl Waiting {
    /// Returns whether nothing is to come: a leaf alone waits for its issuers.
    fn is_complete(&self) -> bool {
        match &self.halves {
            [Some(chain), Some(_), None] => !self.has_issuers_apart || certificates(chain) > 1,
            [chain, key, _] => chain.is_some() && key.is_some(),
        }
    }

    fn bytes(&self) -> usize {
        self.halves.iter().flatten().map(|half| half.len()).sum()
    }
}

/// Returns whether a file or its folder begins with a dot. Folders above may be the source's own,
/// such as `.acme.sh`.
fn is_hidden(name: &Path) -> bool {
    let last = name.components().rev().take(2);
    let mut names = last.map(|part| part.as_os_str().as_encoded_bytes());
    names.any(|name| name.len() > 1 && name.starts_with(b"."))
}

/// Entries that are held to recognise the layout, and their bytes.
const MAX_HELD: usize = 1000;
const MAX_HELD_BYTES: usize = 16 << 20;
/// Pairs that wait for a half, and their bytes: folders that are not sorted lie apart.
const MAX_WAITING: usize = 32_768;
const MAX_WAITING_BYTES: usize = 32 << 20;
/// Group of archives that end early, or are none.
const UNREADABLE: &str = "the rest of the archive can't be read";
const OUT_OF_REACH: &str =
    "it did not come within 32768 pairs or 32 MiB; make the archive with 'tar --sort=name'";
