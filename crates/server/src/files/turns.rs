//! Read permits, shared fairly between tenants and between their roots.

use std::sync::Arc;

use sekisho_certs::Tenant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Folder;
use crate::shares::Shares;

/// Limits on file reads in flight.
///
/// A read of a hung mount keeps its permit. Hence a tenant has a share of the
/// [`READS_IN_FLIGHT`] permits, and so has each of its folders of the tenant's.
#[derive(Debug)]
pub(crate) struct Turns {
    pub(super) all: Arc<Semaphore>,
    tenants: Shares<Tenant>,
    /// Folders of a tenant, and its roots with `{host}`: these name many folders, often
    /// on one mount.
    folders: Shares<(Tenant, String)>,
    /// Roots that hosts of several tenants share.
    roots: Shares<String>,
}

/// Semaphores that a read of one folder must pass, in this order. A read that waits at one
/// holds permits of those before alone: none that another tenant needs, but for the reads
/// that wait for all permits, and no more of its tenant's than its folder may have.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    folder: Arc<Semaphore>,
    /// Of the tenant's hosts below a root with `{host}`.
    template: Option<Arc<Semaphore>>,
    tenant: Arc<Semaphore>,
    root: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

/// Permit for one read. A read holds it until the system call returns.
#[derive(Debug)]
pub(crate) struct Turn {
    _permits: [Option<OwnedSemaphorePermit>; SEMAPHORES],
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self {
            all: Arc::new(Semaphore::new(READS_IN_FLIGHT)),
            tenants: Shares::default(),
            folders: Shares::default(),
            roots: Shares::default(),
        }
    }

    /// Returns the share of a folder.
    pub(crate) fn share(&self, folder: Folder<'_>) -> Share {
        let Folder { root, host, tenant } = folder;
        let of_tenant = match tenant.as_str().is_empty() {
            true => OF_NO_TENANT,
            false => OF_TENANT,
        };
        let own = |text: &str| (tenant.clone(), text.to_owned());
        let has_host = !root.variable(host).is_empty();
        let template = || {
            let template = own(root.text());
            self.folders.share(&template, of_tenant / 2)
        };
        let of_root = if has_host { OF_TEMPLATE } else { OF_FOLDER };
        Share {
            folder: self
                .folders
                .share(&own(&root.fill(host.as_str())), OF_FOLDER),
            template: has_host.then(template),
            tenant: self.tenants.share(tenant, of_tenant),
            root: self.roots.share(&**root.text(), of_root),
            all: Arc::clone(&self.all),
        }
    }
}

impl Share {
    /// Waits for a permit. None only if a semaphore were closed, which none is.
    pub(crate) async fn turn(&self) -> Option<Turn> {
        let mut permits = [const { None }; SEMAPHORES];
        for (permit, semaphore) in permits.iter_mut().zip(self.in_order()) {
            if let Some(semaphore) = semaphore {
                *permit = Some(Arc::clone(semaphore).acquire_owned().await.ok()?);
            }
        }
        Some(Turn { _permits: permits })
    }

    /// Takes a permit without waiting, if there is one.
    pub(crate) fn try_turn(&self) -> Option<Turn> {
        let mut permits = [const { None }; SEMAPHORES];
        for (permit, semaphore) in permits.iter_mut().zip(self.in_order()) {
            if let Some(semaphore) = semaphore {
                *permit = Some(Arc::clone(semaphore).try_acquire_owned().ok()?);
            }
        }
        Some(Turn { _permits: permits })
    }

    fn in_order(&self) -> [Option<&Arc<Semaphore>>; SEMAPHORES] {
        [
            Some(&self.folder),
            self.template.as_ref(),
            Some(&self.tenant),
            Some(&self.root),
            Some(&self.all),
        ]
    }
}

/// Semaphores of a share.
const SEMAPHORES: usize = 5;
/// File reads in flight over all workers: enough to keep a disk busy, and for the
/// shares of several tenants. Their threads touch 8 KiB of stack each, which is
/// negligible.
pub(crate) const READS_IN_FLIGHT: usize = 128;
/// Reads in flight in one folder: three hung folders leave permits to others of the
/// tenant.
pub(crate) const OF_FOLDER: usize = 8;
/// Reads in flight for hosts of one tenant: three tenants whose folders hang leave permits
/// to others.
const OF_TENANT: usize = READS_IN_FLIGHT / 4;
/// Reads in flight for hosts without a tenant, which may be many customers': seven hung
/// folders leave permits to others.
const OF_NO_TENANT: usize = READS_IN_FLIGHT / 2;
/// Reads in flight in all folders of one root with `{host}`, whoever has the hosts.
const OF_TEMPLATE: usize = READS_IN_FLIGHT / 4;

#[cfg(test)]
mod tests {
    use sekisho_certs::HostName;

    use super::*;
    use crate::site::Root;
    use crate::site::Template;

    fn share(turns: &Turns, root: &str, host: &str, tenant: &str) -> Share {
        turns.share(Folder {
            root: &Root::of_operator(Template::parse(root, &["{host}"]).unwrap()),
            host: &HostName::parse(host).unwrap(),
            tenant: &Tenant::parse(tenant).unwrap(),
        })
    }

    fn take_all(share: &Share) -> Vec<Turn> {
        std::iter::from_fn(|| share.try_turn()).collect()
    }

    #[test]
    fn no_folder_takes_the_turns_of_others() {
        let turns = Turns::new();
        for tenant in ["", "acme"] {
            let hung = take_all(&share(&turns, "/srv/hung", "a.example", tenant));
            assert_eq!(hung.len(), OF_FOLDER);
            let same = share(&turns, "/srv/hung", "b.example", tenant);
            assert!(same.try_turn().is_none());
            let other = share(&turns, "/srv/other", "a.example", tenant);
            assert!(other.try_turn().is_some());
            drop(hung);
            assert!(same.try_turn().is_some());
        }
    }

    #[test]
    fn a_root_that_tenants_share_takes_no_more_than_a_folder() {
        let turns = Turns::new();
        let hung = take_all(&share(&turns, "/srv/hung", "a.example", "acme"));
        assert_eq!(hung.len(), OF_FOLDER);
        let same = share(&turns, "/srv/hung", "b.example", "other");
        assert!(same.try_turn().is_none());
        drop(hung);
        assert!(same.try_turn().is_some());
    }

    #[test]
    fn the_folders_of_one_template_leave_turns_to_others() {
        for (tenant, most) in [("", OF_TEMPLATE), ("acme", OF_TENANT / 2)] {
            let turns = Turns::new();
            let host = |n| share(&turns, "/mnt/{host}", &format!("{n}.example"), tenant);
            let hung: Vec<_> = (0..20).flat_map(|n| take_all(&host(n))).collect();
            assert_eq!(hung.len(), most);
            let other = share(&turns, "/srv/{host}", "0.example", tenant);
            assert!(other.try_turn().is_some());
        }
    }

    #[test]
    fn the_folders_of_one_tenant_leave_turns_to_others() {
        let turns = Turns::new();
        let root = |n, tenant: &str| share(&turns, &format!("/{tenant}/{n}"), "a.example", tenant);
        for (tenant, most) in [("acme", OF_TENANT), ("", OF_NO_TENANT)] {
            let hung: Vec<_> = (0..20).flat_map(|n| take_all(&root(n, tenant))).collect();
            assert_eq!(hung.len(), most);
            assert!(root(0, "other").try_turn().is_some());
        }
    }
}
