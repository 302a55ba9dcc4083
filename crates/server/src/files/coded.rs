//! Copies of files in a coding: precompressed beside them, or compressed in memory.

use bytes::Bytes;
use http::Response;
use http::header::VARY;
use sekisho_certs::Tenant;

use super::cache::{Age, Form, Key, KeyRef, What};
use super::load::Identity;
use super::path::FilePath;
use super::{Asked, Files, Folder, Found, NoFile, Opener};
use crate::coding::BY_CODING;
use crate::coding::accept::Accepted;
use crate::site::body::Body;
use crate::site::{Coding, RuleOptions};

/// Cached file whose answer may be compressed, in the answer's extensions.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    key: Key,
    identity: Identity,
}

impl Files {
    /// Answers with a file whose rule allows codings: with the precompressed copy that the
    /// client likes best, else with the file itself. That may be compressed once the fields of
    /// its answer are known.
    pub(super) async fn serve_coded(
        &self,
        folder: Folder<'_>,
        asked: &Asked<'_>,
        path: &FilePath<'_>,
        open: Opener<'_>,
        options: &RuleOptions,
    ) -> Result<Response<Body>, NoFile> {
        let accepted = Accepted::of(&asked.head.headers);
        for coding in accepted.order(&options.precompressed) {
            let form = Form::Precompressed(coding);
            let (found, permit) = self.look_for(folder, path, form, open).await;
            if !matches!(&found, Found::Entry(entry) if matches!(entry.what, What::NoCopy)) {
                return self.answer_with(folder, asked, found, permit);
            }
        }
        let (found, permit) = self.look_for(folder, path, Form::Plain, open).await;
        let identity = match &found {
            Found::Entry(entry) => entry.identity(),
            Found::Large { .. } | Found::Noted | Found::Refused(_) => None,
        };
        let mut response = self.answer_with(folder, asked, found, permit)?;
        if !options.precompressed.is_empty() {
            response.headers_mut().entry(VARY).or_insert(BY_CODING);
        }
        if let Some(identity) = identity {
            let key = KeyRef::new(folder, path, Form::Plain).to_key();
            response.extensions_mut().insert(Source { key, identity });
        }
        Ok(response)
    }

    /// Returns the body of a cached file in a coding, which is kept until the file changes.
    /// None if it is not smaller, or has no turn to be made.
    pub(crate) async fn compress(
        &self,
        Source { key, identity }: Source,
        tenant: &Tenant,
        how: (Coding, u8),
        body: Bytes,
    ) -> Option<Bytes> {
        let (cache, coders) = (&self.0.cache, &self.0.coders);
        let form = Form::Compressed(how.0, how.1);
        let key = Key { form, ..key };
        if let Some(entry) = cache.entries.get(&key)
            && let What::Compressed(copy) = &entry.what
            && copy.1 == identity
            // Without a smaller one, a later try may have a turn.
            && (copy.0.is_some() || entry.age(cache.now()) == Age::Fresh)
        {
            return copy.0.clone();
        }
        let coded = coders.whole(tenant, how, body).await;
        // Without the room that the encoder has left over.
        let coded = coded.map(|coded| Bytes::from(coded.into_boxed_slice()));
        let copy = What::Compressed(Box::new((coded.clone(), identity)));
        cache.insert(key, copy, cache.now());
        coded
    }
}
