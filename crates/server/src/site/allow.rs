//! The list `[sites] allow`: folders, sockets, networks and folders of programs that
//! sites in host records may name.

mod folder;
mod own;
mod target;

use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use sekisho_certs::Tenant;

use super::template::TENANT;
use super::upstream::{Address, Upstream};
use folder::Folder;
pub use own::{OwnAddress, OwnAddresses};
use target::Target;
pub(crate) use target::unmapped;

/// Entries of `[sites] allow`. A root in a host record must lie in one of its
/// folders, an upstream's socket in one of its folders of sockets, each address
/// that an upstream resolves to in one of its networks, and a CGI program in one of
/// its folders of programs. `[site]` is the operator's own, and the list does not
/// bind it.
#[derive(Clone, Debug)]
pub struct Allowed(Arc<Entries>);

#[derive(Debug, Default)]
struct Entries {
    texts: Vec<String>,
    folders: Vec<Folder>,
    sockets: Vec<Folder>,
    programs: Vec<PathBuf>,
    targets: Vec<Target>,
}

impl Allowed {
    /// Checks a list. A relative folder lies below `base`.
    ///
    /// # Errors
    /// The index of a wrong entry, and the problem.
    pub fn parse<T: AsRef<str>>(texts: &[T], base: &Path) -> Result<Self, (usize, String)> {
        let mut entries = Entries::default();
        for (index, text) in texts.iter().enumerate() {
            let text = text.as_ref();
            entries.add(text, base).map_err(|text| (index, text))?;
            entries.texts.push(text.to_owned());
        }
        Ok(Self(Arc::new(entries)))
    }

    /// Returns whether the root of a tenant's host lies in one of the folders by its
    /// text; for none, whether that of any tenant may. Symbolic links are checked when
    /// the root is opened.
    #[must_use]
    pub fn folder(&self, root: &Path, tenant: Option<&Tenant>) -> bool {
        longest(&self.0.folders, root, tenant).is_some()
    }

    /// Returns the leading part of a root that the operator chose by an entry, the
    /// longest of those that hold it: all of the entry, or up to and with the component
    /// that holds `{tenant}`. Such an entry counts whoever has the host: each folder that
    /// it names is one that a tenant may change.
    pub(crate) fn part_of(&self, root: &Path) -> Option<PathBuf> {
        part_of(&self.0.folders, root, None)
    }

    /// Returns whether the entry that holds a root keeps tenants apart.
    pub(crate) fn keeps_apart(&self, root: &Path) -> bool {
        longest(&self.0.folders, root, None).is_some_and(Folder::has_tenant)
    }

    /// Returns whether the socket of a tenant's host lies in one of the folders of sockets
    /// by its text; for none, whether that of any tenant may. Symbolic links are checked
    /// when it is opened.
    #[must_use]
    pub fn socket(&self, socket: &Path, tenant: Option<&Tenant>) -> bool {
        longest(&self.0.sockets, socket, tenant).is_some()
    }

    /// Returns the leading part of the path of a tenant's socket that the operator chose by
    /// an entry. None if no entry holds it.
    pub(crate) fn part_of_socket(&self, socket: &Path, tenant: &Tenant) -> Option<PathBuf> {
        part_of(&self.0.sockets, socket, Some(tenant))
    }

    /// Returns whether an upstream may be at a resolved address.
    ///
    /// 1. The IPv4 address counts for those in `::ffff:0:0/96` and
    ///    `64:ff9b::/96`.
    /// 2. A single address with this single port in the list is allowed.
    /// 3. Link-local, metadata and unspecified addresses are refused, and
    ///    those of the server itself and of its stores.
    /// 4. Else one of the networks must hold it.
    #[must_use]
    pub fn address(&self, address: SocketAddr, own: &OwnAddresses) -> bool {
        self.judge(address, own, true)
    }

    fn judge(&self, address: SocketAddr, own: &OwnAddresses, unresolved: bool) -> bool {
        let (ip, port) = (unmapped(address.ip()), address.port());
        let targets = self.0.targets.iter();
        let mut holding = targets.filter(|target| target.holds(ip, port));
        let is_named = holding.clone().any(Target::is_single);
        is_named
            || (holding.next().is_some()
                && !target::is_special(ip)
                && !own.contain(ip, port, unresolved))
    }

    /// Returns the first server of an upstream of a tenant's host, or of any tenant's for
    /// none, that can't be allowed, judged by text: a socket, or an IP address. Names are judged at each connect, as are
    /// addresses that may be those of a server's name without an answer so far: this
    /// verdict is kept with the host.
    pub(crate) fn refused<'a>(
        &self,
        upstream: &'a Upstream,
        tenant: Option<&Tenant>,
        own: &OwnAddresses,
    ) -> Option<&'a Address> {
        let mut addresses = upstream.servers.iter().map(|server| &server.address);
        let refused = |address: &&Address| match address {
            Address::Unix(path) => !self.socket(path, tenant) || own.is_socket(path),
            Address::Tcp { host, port } => host
                .parse()
                .is_ok_and(|ip| !self.judge(SocketAddr::new(ip, *port), own, false)),
        };
        addresses.find(refused).filter(|_| upstream.is_bound)
    }

    /// Returns the folders that CGI programs may lie in.
    #[must_use]
    pub fn programs(&self) -> &[PathBuf] {
        &self.0.programs
    }

    /// Returns the longest entry with programs that holds a path, by its text. Symbolic
    /// links are checked when a program is opened.
    pub(crate) fn programs_with(&self, path: &Path) -> Option<&Path> {
        let entries = self.0.programs.iter().filter(|_| !climbs(path));
        let holding = entries.filter(|entry| path.starts_with(entry));
        let longest = holding.max_by_key(|entry| entry.components().count());
        longest.map(PathBuf::as_path)
    }

    /// Returns the entries as they were written.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        &self.0.texts
    }
}

/// Returns the folders for web content of the Filesystem Hierarchy Standard
/// (3.0, section 3.17) and of Debian.
impl Default for Allowed {
    fn default() -> Self {
        Self::parse(&["/srv", "/var/www"], Path::new("/")).expect("both are folders")
    }
}

impl Entries {
    fn add(&mut self, text: &str, base: &Path) -> Result<(), String> {
        if let Some(folder) = text.strip_prefix("unix:") {
            self.sockets.push(Folder::parse(folder, base)?);
        } else if let Some(folder) = text.strip_prefix("cgi:") {
            if folder.contains(TENANT) {
                return Err(format!(
                    "{TENANT} can't stand in a folder of programs: they run as the server's user, \
                     which can read all keys and the store, so no tenant may write them; start \
                     tenants' programs by `fastcgi` and a FastCGI server that runs as the tenant"
                ));
            }
            self.programs.push(folder_of(folder, base)?);
        } else if target::is_like(text) {
            self.targets.push(Target::parse(text)?);
        } else {
            self.folders.push(Folder::parse(text, base)?);
        }
        Ok(())
    }
}

/// Returns the leading part of a path that the operator chose by the longest entry.
fn part_of(entries: &[Folder], path: &Path, tenant: Option<&Tenant>) -> Option<PathBuf> {
    let length = longest(entries, path, tenant)?.len_of_part();
    Some(path.components().take(length).collect())
}

/// Returns the longest of the entries that hold a path, as this tenant's; as that of any
/// tenant for none.
fn longest<'a>(entries: &'a [Folder], path: &Path, tenant: Option<&Tenant>) -> Option<&'a Folder> {
    let entries = entries.iter().filter(|_| !climbs(path));
    let holding = entries.filter(|entry| entry.holds(path, tenant));
    holding.max_by_key(|entry| entry.len())
}

fn climbs(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

fn folder_of(text: &str, base: &Path) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err("the path must not be empty nor hold a NUL".into());
    }
    let folder = base.join(text);
    let shown = folder.display();
    if folder.components().any(|part| part == Component::ParentDir) {
        return Err(format!("{shown} holds `..`; write the folder's own path"));
    }
    let bare = folder.parent().is_none();
    if bare || KERNEL.iter().any(|kernel| folder.starts_with(kernel)) {
        return Err(format!(
            "{shown} would let host records serve the system's files; \
             name the folders that hold sites, such as \"/srv\""
        ));
    }
    Ok(folder)
}

/// Kernel file systems, which expose devices and the environment and memory of
/// processes.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

#[cfg(test)]
mod tests;
