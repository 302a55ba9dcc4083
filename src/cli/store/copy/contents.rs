//! Lists the contents of a store in order, as digests.

use std::collections::VecDeque;
use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::HEXLOWER;
use indicatif::HumanCount;
use sekisho_certs::lineage::{Lineage, LineageName, Listed};
use sekisho_certs::store::{Document, DocumentId, DocumentKind};
use sekisho_certs::{
    CredentialFilter, CredentialId, HostFilter, HostPattern, HostRecord, KeyType, OpenKey, Origin,
    Sealer, Secret, StoredCredential,
};

use super::marker;
use crate::terminal::failure::Result;

/// Item of a store, in listing order: referenced items come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Item {
    Credential(CredentialId),
    Host(HostPattern),
    Lineage(LineageName),
    Document(DocumentId),
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credential(id) => id.fmt(f),
            Self::Host(pattern) => write!(f, "host {pattern}"),
            Self::Lineage(name) => write!(f, "lineage {name}"),
            Self::Document(id) => id.fmt(f),
        }
    }
}

/// Item with a digest of its content, which excludes catalog data such as
/// versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Digested {
    pub(super) item: Item,
    digest: [u8; 32],
}

/// Iterator over a store, a page at a time.
pub(super) struct Contents<'a> {
    sealer: &'a Sealer,
    stage: Stage,
    page: VecDeque<Digested>,
    summary: Summary,
    digest: Context,
}

enum Stage {
    Credentials(Option<(i64, CredentialId)>),
    Hosts(Option<HostPattern>),
    Lineages(Option<LineageName>),
    Kinds(String),
    Documents(DocumentKind, Option<String>),
    End,
}

impl<'a> Contents<'a> {
    pub(super) fn of(sealer: &'a Sealer) -> Self {
        Self {
            sealer,
            stage: Stage::Credentials(None),
            page: VecDeque::new(),
            summary: Summary::default(),
            digest: Context::new(&SHA256),
        }
    }

    /// Returns the next item; None at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Digested>> {
        while self.page.is_empty() && !matches!(self.stage, Stage::End) {
            self.turn().await?;
        }
        let next = self.page.pop_front();
        if let Some(next) = &next {
            match next.item {
                Item::Credential(_) => self.summary.credentials += 1,
                Item::Host(_) => self.summary.hosts += 1,
                Item::Lineage(_) => self.summary.lineages += 1,
                Item::Document(_) => self.summary.documents += 1,
            }
        }
        Ok(next)
    }

    /// Adds an item to the digest.
    pub(super) fn add(&mut self, item: &Digested) {
        self.digest.update(&item.digest);
    }

    /// Returns the counts of listed items, and the digest of added ones.
    pub(super) fn summary(self) -> Summary {
        Summary {
            digest: finish(self.digest),
            ..self.summary
        }
    }

    /// Reads a page, or goes to the next stage.
    async fn turn(&mut self) -> Result<()> {
        let catalog = self.sealer.catalog();
        match &mut self.stage {
            Stage::Credentials(after) => {
                let listed = catalog.list_credentials(&CredentialFilter::All, *after, PAGE);
                let page = listed.await?;
                let next = page.next.map(|next| Stage::Credentials(Some(next)));
                let opened = self.sealer.open_credentials(page.credentials).await?;
                self.page = opened.iter().map(credential).collect();
                self.stage = next.unwrap_or(Stage::Hosts(None));
            }
            Stage::Hosts(after) => {
                let all = HostFilter::default();
                let page = catalog.list_hosts(&all, after.as_ref(), PAGE).await?;
                self.page = page.hosts.iter().map(host).collect();
                let next = page.next.map(|next| Stage::Hosts(Some(next)));
                self.stage = next.unwrap_or(Stage::Lineages(None));
            }
            Stage::Lineages(after) => {
                let page = catalog.list_lineages(Listed::All, after.as_ref(), PAGE);
                let page = page.await?;
                self.stage = match page.last() {
                    Some(last) => Stage::Lineages(Some(last.name.clone())),
                    None => Stage::Kinds(String::new()),
                };
                for stored in page {
                    let opened = self.sealer.open_lineage(stored).await?;
                    self.page.push_back(lineage(&opened));
                }
            }
            Stage::Kinds(after) => {
                self.stage = match catalog.next_document_kind(after).await? {
                    Some(kind) if marker::stays(&kind) => Stage::Kinds(kind.as_str().to_owned()),
                    Some(kind) => Stage::Documents(kind, None),
                    None => Stage::End,
                };
            }
            Stage::Documents(kind, after) => {
                let page = catalog.list_documents(kind, after.as_deref(), PAGE);
                let page = page.await?;
                let next = match page.last() {
                    Some(last) => {
                        let after = Some(last.id.key.clone().into_owned());
                        Stage::Documents(kind.clone(), after)
                    }
                    None => Stage::Kinds(kind.as_str().to_owned()),
                };
                for stored in page {
                    let opened = self.sealer.open_document(stored).await?;
                    self.page.push_back(document(&opened));
                }
                self.stage = next;
            }
            Stage::End => {}
        }
        Ok(())
    }
}

/// Counts and digest of a store's contents in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    hosts: u64,
    credentials: u64,
    lineages: u64,
    documents: u64,
    digest: [u8; 32],
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [self.hosts, self.credentials, self.documents, self.lineages];
        let [hosts, credentials, documents, lineages] = counts.map(HumanCount);
        let digest = HEXLOWER.encode(&self.digest);
        write!(
            f,
            "{hosts} hosts, {credentials} credentials, {documents} documents, \
             {lineages} lineages, sha256 {digest}"
        )
    }
}

fn credential(one: &StoredCredential<OpenKey>) -> Digested {
    let mut digest = Parts::of("credential");
    digest.add(&one.id.as_u64().to_be_bytes());
    digest.add(one.key_type.as_str().as_bytes());
    digest.add(&(one.chain.len() as u64).to_be_bytes());
    one.chain.iter().for_each(|der| digest.add(der));
    digest.add(one.key.secret().expose());
    digest.add(&one.not_before.to_be_bytes());
    digest.add(&one.not_after.to_be_bytes());
    digest.text(source(one.origin.as_ref()));
    digest.end(Item::Credential(one.id))
}

fn host(one: &HostRecord) -> Digested {
    let mut digest = Parts::of("host");
    let content = HostRecord {
        version: 0,
        ..one.clone()
    };
    let content = serde_json::to_vec(&content);
    digest.add(&content.expect("a record has no keys but texts"));
    digest.text(source(one.origin.as_ref()));
    digest.end(Item::Host(one.pattern.clone()))
}

/// Returns what of an origin is copied: each store has versions of its own.
fn source(origin: Option<&Origin>) -> Option<&str> {
    origin.map(|origin| &*origin.source)
}

/// Digests a lineage without its claim, which is not copied.
fn lineage(one: &Lineage<Secret>) -> Digested {
    let mut digest = Parts::of("lineage");
    digest.add(one.name.as_str().as_bytes());
    digest.add(one.tenant.as_str().as_bytes());
    digest.add(&(one.names.len() as u64).to_be_bytes());
    let names = one.names.iter();
    names.for_each(|name| digest.add(name.as_str().as_bytes()));
    let key_type = one.wishes.key_type.map(KeyType::as_str);
    for wish in [&one.wishes.ca, &one.wishes.profile, &one.wishes.solver] {
        digest.text(wish.as_deref());
    }
    digest.text(key_type);
    digest.number(one.credential.map(|id| id.as_u64().cast_signed()));
    digest.text(one.issued_by.as_deref());
    digest.number(one.due);
    digest.number(Some(one.turn));
    digest.number(Some(one.attempts.into()));
    digest.number(one.last_error.as_ref().map(|error| error.at));
    digest.text(one.last_error.as_ref().map(|error| error.text.as_str()));
    digest.optional(one.order.as_ref().map(Secret::expose));
    digest.end(Item::Lineage(one.name.clone()))
}

fn document(one: &Document<Secret>) -> Digested {
    let item = Item::Document(one.id.clone());
    let mut digest = Parts::of("document");
    digest.add(one.id.kind.as_str().as_bytes());
    digest.add(one.id.key.as_bytes());
    digest.add(one.bytes.expose());
    digest.number(one.expires);
    digest.end(item)
}

/// Hash of length-prefixed parts: different contents hash different bytes.
struct Parts(Context);

impl Parts {
    fn of(what: &str) -> Self {
        let mut parts = Self(Context::new(&SHA256));
        parts.add(what.as_bytes());
        parts
    }

    fn add(&mut self, part: &[u8]) {
        self.0.update(&(part.len() as u64).to_be_bytes());
        self.0.update(part);
    }

    fn number(&mut self, number: Option<i64>) {
        match number {
            Some(number) => self.add(&number.to_be_bytes()),
            None => self.add(b""),
        }
    }

    /// Adds a part that may be empty, and whether it is there.
    fn optional(&mut self, part: Option<&[u8]>) {
        self.add(&[u8::from(part.is_some())]);
        self.add(part.unwrap_or_default());
    }

    fn text(&mut self, text: Option<&str>) {
        self.optional(text.map(str::as_bytes));
    }

    fn end(self, item: Item) -> Digested {
        let digest = finish(self.0);
        Digested { item, digest }
    }
}

fn finish(digest: Context) -> [u8; 32] {
    let digest = digest.finish();
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Items of a page, which bounds its memory.
const PAGE: usize = 500;
