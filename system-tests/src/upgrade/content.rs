//! Bytes of downloads and uploads, each at one place only.

use std::sync::Arc;

use sekisho_bench::load::SplitMix;

/// Random bytes. Clones share them.
#[derive(Clone)]
pub(super) struct Content(Arc<[u8]>);

impl Content {
    pub(super) fn new() -> Self {
        let mut random = SplitMix(SEED);
        let words = (0..LARGE / WORD).map(|_| random.below(usize::MAX).to_le_bytes());
        Self(words.flatten().collect())
    }

    /// Returns all bytes, those of the large file.
    pub(super) fn large(&self) -> &[u8] {
        &self.0
    }

    /// Returns the first bytes, those of the file that is read at once.
    pub(super) fn medium(&self) -> &[u8] {
        &self.0[..MEDIUM]
    }

    /// Returns the bytes of an upload.
    pub(super) fn upload(&self) -> &[u8] {
        &self.0[..UPLOAD]
    }

    /// Tells whether these bytes are those at the offset of an upload.
    pub(super) fn is_uploaded(&self, offset: usize, bytes: &[u8]) -> bool {
        let end = offset.saturating_add(bytes.len());
        self.upload().get(offset..end) == Some(bytes)
    }
}

const SEED: u64 = 23;
const WORD: usize = size_of::<usize>();
/// More than the buffers of both sockets hold: some 10 MiB.
const LARGE: usize = 32 << 20;
const MEDIUM: usize = 4 << 20;
const UPLOAD: usize = 1 << 20;
