//! Judges what sites may name: folders and files that they serve, and sockets and
//! addresses of their upstreams. Files and sockets are judged once they are open,
//! when a swapped symbolic link can't change them.

mod own_files;

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::SocketAddr as SocketAddress;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sekisho_certs::metrics::{Counter, Counters, Registry};
use sekisho_certs::{HostPattern, Tenant};

use super::allow::{Allowed, OwnAddresses};
use super::error::SiteError;
use super::named::NamedFields;
use super::open::{descriptor, is_ours, open_folder, open_socket, real_path};
use super::root::{OperatorsPart, Root};
use super::upstream::{Address, Upstream};
use crate::limits::log_limiter::{self, LogLimits};
pub use own_files::OwnFiles;
pub(super) use own_files::{id, id_at};

/// Guard that refuses sites folders, sockets and addresses outside `[sites]
/// allow`, and the server's own. It counts and logs refusals. The counters are Relaxed: they guard
/// no other data.
#[derive(Debug, Default)]
pub struct Guard {
    allowed: Allowed,
    own: OwnFiles,
    own_addresses: Arc<OwnAddresses>,
    fields: NamedFields,
    refused: Refusals,
    log_limits: LogLimits,
}

/// Reasons why a root, file or upstream is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The root of a host record lies outside of `[sites] allow`.
    #[error("the root lies outside of the folders of [sites] allow")]
    OutsideAllow,
    /// A symbolic link leads the root out of the part that the operator chose.
    #[error(
        "a symbolic link leads the root out of the folder of [sites] allow that holds it, or out \
         of the tenant's folder of [site] root"
    )]
    Link,
    /// The file is one of the server's own, lies beside one, or in a folder with keys or
    /// programs.
    #[error(
        "it is one of the server's own files, lies beside one, or belongs to the keys of [hook] \
         folders or to the programs of a cgi: entry of [sites] allow"
    )]
    OwnFile,
    /// The upstream of a host record is at an address or socket that is not
    /// allowed.
    #[error(
        "the upstream lies outside of the networks and sockets of [sites] allow, or is link-local \
         or the server's own"
    )]
    Upstream,
    /// The root of a host record with programs lies in no `cgi:` entry of `[sites] allow`.
    #[error("the root of programs lies in no folder of a cgi: entry of [sites] allow")]
    Programs,
    /// A rule's `request` changes the field that this key of `[sites]` names.
    #[error("only the server sets the field of [sites] {0}")]
    Field(&'static str),
}

/// Counters of refusals by reason. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    /// Records and requests with a root outside of `[sites] allow`.
    pub outside_allow: Counter,
    /// Requests with a root that a symbolic link leads out of its part.
    pub links: Counter,
    /// Records with a folder of keys, and requests for the server's own files.
    pub own_files: Counter,
    /// Records and requests with an upstream that is not allowed.
    pub upstreams: Counter,
    /// Records that change a field of `[sites]`, or name such fields as earlier ones did.
    pub fields: Counter,
}

impl Refusals {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let refused = Counters {
            label: "reason",
            each: [
                ("link", self.links.clone()),
                ("outside_allow", self.outside_allow.clone()),
                ("own_file", self.own_files.clone()),
                ("upstream", self.upstreams.clone()),
                ("field", self.fields.clone()),
            ],
        };
        let help = "Roots, files and upstreams that sites were refused, answered with 503";
        registry.register("sites_refused", help, refused);
    }
}

impl Guard {
    /// Makes a guard that bounds the roots of host records to `allowed`, and
    /// refuses every site the files of `own`, and those in folders of programs: a
    /// program's source may hold passwords.
    #[must_use]
    pub fn new(allowed: Allowed, own: OwnFiles) -> Self {
        Self {
            own: own.with_keys(allowed.programs().to_vec()),
            allowed,
            ..Self::default()
        }
    }

    /// Refuses upstreams of host records these addresses, too.
    #[must_use]
    pub fn with_addresses(self, own_addresses: Arc<OwnAddresses>) -> Self {
        Self {
            own_addresses,
            ..self
        }
    }

    /// Sets these fields towards each upstream, and refuses rules that change them.
    #[must_use]
    pub fn with_fields(self, fields: NamedFields) -> Self {
        Self { fields, ..self }
    }

    /// Returns the names of the fields that only the server sets.
    pub(crate) fn fields(&self) -> &NamedFields {
        &self.fields
    }

    /// Returns the refusals since the start.
    #[must_use]
    pub fn refused(&self) -> &Refusals {
        &self.refused
    }

    /// Checks a root for a tenant's host, and its folder, if that exists; for none, the
    /// root of any tenant's. Blocks.
    pub(crate) fn inspect(&self, root: &Root, tenant: Option<&Tenant>) -> Option<Refusal> {
        if let Some(refused) = self.inspect_text(root, tenant) {
            return Some(refused);
        }
        // A folder that does not exist, or depends on the host name, is checked
        // with each request.
        let folder = match self.open_root(root, Path::new(&*root.template.text)).ok()? {
            Ok(folder) => folder,
            Err(refused) => return Some(refused),
        };
        let real = real_path(&folder).ok()?;
        let is_own = match root.part {
            OperatorsPart::Whole => false,
            OperatorsPart::Components(_) | OperatorsPart::Allowed => {
                self.own.are_in(&real) || self.own.keys_overlap(&real)
            }
        };
        is_own.then_some(Refusal::OwnFile)
    }

    /// Checks the root of a tenant's host record by its text alone; for none, that of any
    /// tenant's.
    pub(crate) fn inspect_text(&self, root: &Root, tenant: Option<&Tenant>) -> Option<Refusal> {
        let folder = Path::new(&*root.template.text);
        match root.part {
            // Those of `[site]` are judged when the configuration is read.
            OperatorsPart::Whole | OperatorsPart::Components(_) => None,
            OperatorsPart::Allowed if !self.allowed.folder(folder, tenant) => {
                Some(Refusal::OutsideAllow)
            }
            OperatorsPart::Allowed => self.own.keys_overlap(folder).then_some(Refusal::OwnFile),
        }
    }

    /// Returns the folder of a `cgi:` entry that holds a root of programs, and down from which
    /// they are judged; the root itself if it is the operator's. None if no entry holds it.
    pub(crate) fn programs<'a>(&'a self, root: &'a Root) -> Option<&'a Path> {
        let folder = Path::new(&*root.template.text);
        match root.is_bound() {
            true => self.allowed.programs_with(folder),
            false => Some(folder),
        }
    }

    /// Returns whether no entry without `{tenant}` holds the root of a host record.
    pub(crate) fn keeps_apart(&self, root: &Root) -> bool {
        !root.is_bound() || self.allowed.keeps_apart(Path::new(&*root.template.text))
    }

    /// Counts and logs a host record whose site is refused, for this text of it.
    pub(crate) fn note_site(&self, whose: (&HostPattern, &Tenant), what: &str, refusal: Refusal) {
        self.counter(refusal).inc();
        self.log_limits.site_refused(whose, what, &refusal);
    }

    /// Notes a host record with a key that stands in the configuration since.
    pub(crate) fn note_moved(&self, whose: (&HostPattern, &Tenant), error: &SiteError) {
        self.refused.fields.inc();
        self.log_limits.site_moved(whose, error);
    }

    /// Returns the first server of an upstream that its text alone refuses for a tenant's
    /// host; for none, that it refuses whoever has the host.
    pub(crate) fn inspect_upstream<'a>(
        &self,
        upstream: &'a Upstream,
        tenant: Option<&Tenant>,
    ) -> Option<&'a Address> {
        self.allowed.refused(upstream, tenant, &self.own_addresses)
    }

    /// Returns a number that changes when the server learns of another own address.
    pub(crate) fn own_addresses_version(&self) -> u64 {
        self.own_addresses.version()
    }

    /// Judges a resolved address of an upstream, before each connect. Counts and
    /// logs a refusal.
    pub(crate) fn check_address(
        &self,
        upstream: &Upstream,
        whose: (&str, &Tenant),
        address: SocketAddr,
    ) -> bool {
        let allowed = !upstream.is_bound || self.allowed.address(address, &self.own_addresses);
        if !allowed {
            self.note_upstream(whose, &address);
        }
        allowed
    }

    /// Opens the socket of an upstream. Symbolic links in the part that the operator chose by
    /// an entry of `[sites] allow` are followed; one below may lead elsewhere in that part. None
    /// if the socket is refused, which is counted and logged. Blocks.
    ///
    /// # Errors
    /// If there is no socket.
    pub(crate) fn open_socket(
        &self,
        upstream: &Upstream,
        whose: (&str, &Tenant),
        socket: &Path,
    ) -> io::Result<Option<OpenSocket>> {
        let opened = match upstream.is_bound {
            true => self.open_allowed(whose.1, socket)?,
            false => open_socket(socket, Path::new(""))?,
        };
        if opened.is_none() {
            self.note_upstream(whose, &socket.display());
        }
        opened.map(OpenSocket::new).transpose()
    }

    /// Opens the socket of a tenant's host. None if no entry of `[sites] allow` holds it, or
    /// if it is the server's own.
    fn open_allowed(&self, tenant: &Tenant, socket: &Path) -> io::Result<Option<OwnedFd>> {
        let Some(part) = self.allowed.part_of_socket(socket, tenant) else {
            return Ok(None);
        };
        let below = socket.strip_prefix(&part).expect("it begins with its part");
        let Some(opened) = open_socket(&part, below)? else {
            return Ok(None);
        };
        let metadata = fs::metadata(descriptor(&opened))?;
        let is_own = self.own_addresses.is_open_socket(&metadata);
        Ok((!is_own).then_some(opened))
    }

    fn note_upstream(&self, whose: (&str, &Tenant), address: &dyn fmt::Display) {
        self.refused.upstreams.inc();
        let refusal = &Refusal::Upstream;
        self.log_limits.upstream_refused(whose, address, refusal);
    }

    /// Counts and logs a refusal.
    pub(crate) fn note(&self, refusal: Refusal, file: log_limiter::File<'_>) {
        self.counter(refusal).inc();
        self.log_limits.file_refused(file, &refusal);
    }

    fn counter(&self, refusal: Refusal) -> &Counter {
        match refusal {
            Refusal::OutsideAllow | Refusal::Programs => &self.refused.outside_allow,
            Refusal::Link => &self.refused.links,
            Refusal::OwnFile => &self.refused.own_files,
            Refusal::Upstream => &self.refused.upstreams,
            Refusal::Field(_) => &self.refused.fields,
        }
    }

    /// Opens the folder of a root, filled for its host. Symbolic links in the part that
    /// the operator chose are followed; one below may lead elsewhere in that part.
    /// Swapping one afterwards has no effect. Blocks.
    ///
    /// # Errors
    /// If there is no such folder, or the kernel can't tell where a link leads.
    pub(crate) fn open_root(&self, root: &Root, folder: &Path) -> Checked<OwnedFd> {
        let part = match root.part {
            OperatorsPart::Whole => Some(folder.to_owned()),
            OperatorsPart::Components(count) => {
                Some(folder.components().take(count.into()).collect())
            }
            OperatorsPart::Allowed => self.allowed.part_of(folder),
        };
        let Some(part) = part else {
            return Ok(Err(Refusal::OutsideAllow));
        };
        let below = folder.strip_prefix(&part).expect("it begins with its part");
        Ok(open_folder(&part, below)?.ok_or(Refusal::Link))
    }

    /// Checks an open file below a root. Blocks.
    ///
    /// # Errors
    /// If the kernel can't tell where the file lies; then it must not be served.
    pub(crate) fn check_file(&self, root: &Root, file: &File, metadata: &Metadata) -> Checked<()> {
        let is_own = self.own.contains(metadata)
            || match root.part {
                OperatorsPart::Whole => false,
                OperatorsPart::Components(_) | OperatorsPart::Allowed => {
                    self.own.lie_beside(&real_path(file)?)
                }
            }
            || self.own.has_keys() && self.own.keys_hold(&real_path(file)?);
        Ok((!is_own).then_some(()).ok_or(Refusal::OwnFile))
    }
}

/// Verdict of a check, or the error that prevented it.
type Checked<T> = io::Result<Result<T, Refusal>>;

/// Socket of an upstream, opened but not connected.
#[derive(Debug)]
pub(crate) struct OpenSocket {
    path: PathBuf,
    _open: OwnedFd,
}

impl OpenSocket {
    fn new(open: OwnedFd) -> io::Result<Self> {
        let real = real_path(&open)?;
        let path = match is_ours(&real) && SocketAddress::from_pathname(&real).is_ok() {
            true => real,
            false => descriptor(&open),
        };
        Ok(Self { path, _open: open })
    }

    /// Returns the path to connect to. It leads to this socket, wherever others' links lead:
    /// it is one that only root and the server's user can change, or else (also if it is too
    /// long) that of the open descriptor, which takes the kernel 2 µs longer.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests;
