//! Copies of files in a coding: precompressed beside them, or compressed in memory.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::header::VARY;
use sekisho_certs::Tenant;

use super::cache::{Form, Key, KeyRef, What};
use super::load::Identity;
use super::path::FilePath;
use super::state::FilesState;
use super::{Asked, Files, Folder, Found, NoFile, Opener};
use crate::coding::BY_CODING;
use crate::coding::accept::Accepted;
use crate::coding::encode::compress;
use crate::coding::gates::Coders;
use crate::site::body::Body;
use crate::site::{Coding, RuleOptions};

/// Cached file whose answer may be compressed, in the answer's extensions.
#[derive(Clone, Debug)]
pub(crate) struct Source(Key, Identity);

impl Source {
    pub(super) fn new(folder: Folder<'_>, path: &FilePath<'_>, identity: Identity) -> Self {
        Self(KeyRef::new(folder, path, Form::Plain).to_key(), identity)
    }
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
            let source = Source::new(folder, path, identity);
            response.extensions_mut().insert(source);
        }
        Ok(response)
    }

    /// Returns a body in a coding. That of a cached file is kept until the file changes. None
    /// if it is not smaller, or has no turn to be made.
    pub(crate) async fn compress(
        &self,
        source: Option<Source>,
        tenant: &Tenant,
        how: (Coding, u8),
        body: Bytes,
    ) -> Option<Bytes> {
        let form = Form::Compressed(how.0, how.1);
        let source = source.map(|Source(key, identity)| Source(Key { form, ..key }, identity));
        if let Some(copy) = self.0.copy_of(source.as_ref()) {
            return copy;
        }
        let (shared, length) = (Arc::clone(&self.0), body.len());
        let work = move || {
            // Another request may have made it meanwhile.
            if let Some(copy) = shared.copy_of(source.as_ref()) {
                return copy;
            }
            let coded = compress(how.0, how.1, &body);
            // Without the room that the encoder has left over.
            let coded = coded.map(|coded| Bytes::from(coded.into_boxed_slice()));
            if let Some(Source(key, identity)) = source {
                let copy = What::Compressed(Box::new((coded.clone(), identity)));
                shared.cache.insert(key, copy, shared.cache.now());
            }
            coded
        };
        self.coders().whole(tenant, (how.1, length), work).await?
    }

    /// Returns the bounds on encoders.
    pub(crate) fn coders(&self) -> &Arc<Coders> {
        &self.0.coders
    }
}

impl FilesState {
    /// Returns the copy of a cached file in this state, if it was made.
    fn copy_of(&self, source: Option<&Source>) -> Option<Option<Bytes>> {
        let Source(key, identity) = source?;
        match &self.cache.entries.get(key)?.what {
            What::Compressed(copy) if copy.1 == *identity => Some(copy.0.clone()),
            _ => None,
        }
    }
}
