//! Chooses the coding of a file's answer, and compresses files in memory.

use std::sync::Arc;

use http::Response;
use http::header::{RANGE, VARY};

use super::cache::{Age, Entry, Form, KeyRef, What};
use super::kind::content_type;
use super::load::{INDEX, SmallFile};
use super::path::FilePath;
use super::{Asked, Files, Folder, Found, NoFile, Opener};
use crate::coding::accept::Accepted;
use crate::coding::encode::LEAST;
use crate::coding::{BY_CODING, Chosen, forbids_transform};
use crate::site::body::Body;
use crate::site::{CacheRule, Coding, Compress};

/// Codings that a rule allows for the answers of a path, and those that the client takes.
pub(super) struct Codings<'a> {
    /// None for a request of a range, which is one of the file itself.
    accepted: Accepted,
    precompressed: &'a [Coding],
    /// None for a file whose type is not compressed.
    compress: Option<&'a Compress>,
}

impl<'a> Codings<'a> {
    /// Returns the codings of a path; None if its rule allows none.
    pub(super) fn of(asked: &Asked<'a>, path: &FilePath<'_>) -> Option<Self> {
        let options = asked.options?;
        let compress = options.compress.as_deref();
        let compress = compress.filter(|compress| is_compressed(compress, asked, path));
        let precompressed = &*options.precompressed;
        if precompressed.is_empty() && compress.is_none() {
            return None;
        }
        let fields = &asked.head.headers;
        Some(Self {
            accepted: match fields.contains_key(RANGE) {
                true => Accepted::default(),
                false => Accepted::of(fields),
            },
            precompressed,
            compress,
        })
    }
}

impl Files {
    /// Answers with a file whose rule allows codings:
    ///
    /// 1. with the precompressed copy that the client likes best;
    /// 2. with a small file that is compressed as the client likes best, if it gets smaller;
    /// 3. with the file itself: a large one may be compressed while it is sent.
    pub(super) async fn serve_coded(
        &self,
        folder: Folder<'_>,
        asked: &Asked<'_>,
        path: &FilePath<'_>,
        open: Opener<'_>,
        codings: Codings<'_>,
    ) -> Result<Response<Body>, NoFile> {
        let mut accepted = codings.accepted;
        while let Some(coding) = accepted.first(codings.precompressed) {
            accepted = accepted.without(coding);
            let form = Form::Precompressed(coding);
            let (found, permit) = self.look_for(folder, path, form, open).await;
            if let Ok(mut response) = self.answer_with(folder, asked, found, permit) {
                response.extensions_mut().insert(Chosen);
                return Ok(response);
            }
        }
        let (mut found, permit) = self.look_for(folder, path, Form::Plain, open).await;
        if let (Found::Entry(entry), Some(compress)) = (&found, codings.compress)
            && let What::File(file) = &entry.what
            && let Some(coding) = codings.accepted.first(&compress.codings)
            && let Some(copy) = self.compress(folder, path, file, coding, compress).await
        {
            found = Found::Entry(copy);
        }
        let is_chosen = matches!(found, Found::Entry(_));
        let mut response = self.answer_with(folder, asked, found, permit)?;
        response.headers_mut().entry(VARY).or_insert(BY_CODING);
        if is_chosen {
            response.extensions_mut().insert(Chosen);
        }
        Ok(response)
    }

    /// Returns a compressed copy of a small file. The copy is kept until the file changes.
    /// None if it is not smaller, or has no turn to be made.
    async fn compress(
        &self,
        folder: Folder<'_>,
        path: &FilePath<'_>,
        file: &SmallFile,
        coding: Coding,
        compress: &Compress,
    ) -> Option<Arc<Entry>> {
        if file.body.len() < LEAST {
            return None;
        }
        let cache = &self.0.cache;
        let key = KeyRef::new(folder, path, Form::Compressed(coding, compress.level));
        if let Some((entry, age)) = cache.find_made(&key) {
            let is_known = match &entry.what {
                What::File(copy) => copy.identity.is_some() && copy.identity == file.identity,
                // Another state of the file may get smaller.
                What::Missing | What::Directory | What::Script | What::Large => age == Age::Fresh,
            };
            if is_known {
                return Some(entry).filter(|entry| entry.is_file());
            }
        }
        let (coders, body) = (&self.0.coders, file.body.clone());
        let coded = coders.whole(folder.tenant, coding, compress.level, body);
        let what = match coded.await {
            Some(coded) => What::File(Box::new(file.compressed(coding, coded))),
            None => What::Missing,
        };
        let entry = cache.insert(key.to_key(), what, cache.now());
        Some(entry).filter(|entry| entry.is_file())
    }
}

/// Returns whether a file is compressed by its name's type, if the rule does not forbid to
/// change the content.
fn is_compressed(compress: &Compress, asked: &Asked<'_>, path: &FilePath<'_>) -> bool {
    let named = path.is_folder().then_some(INDEX);
    let kind = content_type(named.unwrap_or(path.as_str()));
    let cache = CacheRule::of(asked.cache(), Some(&kind));
    compress.takes(kind.to_str().unwrap_or_default()) && !cache.is_some_and(forbids_transform)
}
