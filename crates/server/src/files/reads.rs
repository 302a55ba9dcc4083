//! Permits to read files, shared fairly between tenants and between their roots.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use sekisho_certs::Tenant;
use sekisho_gate::{Denied, Gate, Permit, Sharing};

use super::Folder;
use super::mounts::Mounts;

/// Limits on file reads in flight. Clones are one.
///
/// A read of a hung mount keeps its permits. Hence a device has a share of the
/// [`READS_IN_FLIGHT`] reads, and so have a tenant and each of its folders.
#[derive(Clone, Debug)]
pub(crate) struct Reads(Arc<Gates>);

#[derive(Debug)]
struct Gates {
    /// Folders of a tenant.
    folders: Gate<(Tenant, Arc<str>)>,
    /// Roots of a tenant with `{host}`: these name many folders, often on one mount.
    templates: Gate<(Tenant, Arc<str>)>,
    tenants: Gate<Tenant>,
    /// Devices that folders lie on, whoever has them.
    mounts: Mounts<Device>,
    /// Bounds the reads in all.
    all: Gate<SharedRoot>,
}

/// Root that hosts of several tenants may share, and whether it has `{host}`.
type SharedRoot = (Arc<str>, bool);

/// Reads of folders on one device. Its roots take turns.
#[derive(Debug)]
struct Device(Gate<SharedRoot>);

/// Reads of one folder.
#[derive(Clone, Debug)]
pub(crate) struct FolderReads {
    reads: Reads,
    tenant: Tenant,
    root: Arc<str>,
    /// Folder of a host below a root with `{host}`; the root itself without it.
    folder: Arc<str>,
    /// Device of the folder; none if it is not known.
    device: Option<Arc<Device>>,
    has_host: bool,
}

/// Permit for one read. A read holds it until the system call returns.
#[derive(Debug)]
pub(crate) struct ReadPermit {
    _folder: Permit<(Tenant, Arc<str>)>,
    _template: Option<Permit<(Tenant, Arc<str>)>>,
    _tenant: Permit<Tenant>,
    _device: Option<Permit<SharedRoot>>,
    _all: Permit<SharedRoot>,
}

impl Default for Device {
    fn default() -> Self {
        Self(Gate::new(OF_DEVICE, Sharing::AtMost(of_root), MAX_WAITING))
    }
}

impl Reads {
    pub(super) fn new() -> Self {
        Self::on(Mounts::new())
    }

    fn on(mounts: Mounts<Device>) -> Self {
        let of_folder = Sharing::AtMost(|_| OF_FOLDER);
        let of_template = Sharing::AtMost(|(tenant, _)| of_tenant(tenant) / 2);
        Self(Arc::new(Gates {
            folders: Gate::new(usize::MAX, of_folder, MAX_WAITING),
            templates: Gate::new(usize::MAX, of_template, MAX_WAITING),
            tenants: Gate::new(usize::MAX, Sharing::AtMost(of_tenant), MAX_WAITING),
            mounts,
            all: Gate::new(READS_IN_FLIGHT, Sharing::AtMost(of_root), MAX_WAITING),
        }))
    }

    /// Returns the reads of a folder.
    pub(crate) fn of(&self, folder: Folder<'_>) -> FolderReads {
        let Folder { root, host, tenant } = folder;
        let has_host = !root.template.variable(host).is_empty();
        let folder: Arc<str> = match has_host {
            true => root.template.fill(host.as_str()).into(),
            false => Arc::clone(&root.template.text),
        };
        FolderReads {
            reads: self.clone(),
            tenant: tenant.clone(),
            root: Arc::clone(&root.template.text),
            device: self.0.mounts.device(Path::new(&*folder)),
            folder,
            has_host,
        }
    }

    /// Reads the mounts again if they have changed.
    pub(super) fn renew_mounts(&self) {
        self.0.mounts.renew();
    }
}

impl FolderReads {
    /// Waits for a permit: of the folder, the template, the tenant, the device, and all reads.
    /// A read that waits for one of them holds those before it. Another tenant needs none of
    /// them, unless both have the same root. Of its tenant's permits, a folder holds no more
    /// than it may have.
    ///
    /// # Errors
    /// [`Denied`], if too many reads wait.
    pub(crate) async fn permit(&self) -> Result<ReadPermit, Denied> {
        let gates = &*self.reads.0;
        let _folder = gates.folders.enter(self.of_tenant(&self.folder)).await?;
        let _template = match self.has_host {
            true => Some(gates.templates.enter(self.of_tenant(&self.root)).await?),
            false => None,
        };
        Ok(ReadPermit {
            _folder,
            _template,
            _tenant: gates.tenants.enter(self.tenant.clone()).await?,
            _device: match &self.device {
                Some(device) => Some(device.0.enter(self.root()).await?),
                None => None,
            },
            _all: gates.all.enter(self.root()).await?,
        })
    }

    /// Takes a permit without waiting, if there is one.
    pub(crate) fn try_permit(&self) -> Option<ReadPermit> {
        self.permit().now_or_never()?.ok()
    }

    fn of_tenant(&self, text: &Arc<str>) -> (Tenant, Arc<str>) {
        (self.tenant.clone(), Arc::clone(text))
    }

    fn root(&self) -> SharedRoot {
        (Arc::clone(&self.root), self.has_host)
    }
}

fn of_tenant(tenant: &Tenant) -> usize {
    match tenant.as_str().is_empty() {
        true => OF_NO_TENANT,
        false => OF_TENANT,
    }
}

fn of_root((_, has_host): &SharedRoot) -> usize {
    match has_host {
        true => OF_TEMPLATE,
        false => OF_FOLDER,
    }
}

/// File reads in flight over all workers: enough to keep a disk busy, and for the
/// shares of several tenants. Their threads touch 8 KiB of stack each, which is
/// negligible.
pub(crate) const READS_IN_FLIGHT: usize = 128;
/// Reads in flight in one folder: three hung folders leave permits to others of the
/// tenant.
pub(crate) const OF_FOLDER: usize = 8;
/// Reads in flight for hosts of one tenant: three tenants whose folders hang on one device
/// leave permits to others.
const OF_TENANT: usize = OF_DEVICE / 4;
/// Reads in flight for hosts without a tenant, which may be many customers': seven hung
/// folders leave permits to others.
const OF_NO_TENANT: usize = READS_IN_FLIGHT / 2;
/// Reads in flight on one device, whoever has the folders: one mount that hangs leaves
/// permits to folders elsewhere. Enough to keep a disk busy.
const OF_DEVICE: usize = READS_IN_FLIGHT * 3 / 4;
/// Reads in flight in all folders of one root with `{host}`, whoever has the hosts.
const OF_TEMPLATE: usize = READS_IN_FLIGHT / 4;
/// Reads that wait at each of these gates. What waits is a request, which takes far more
/// memory than its entry in the queue; and a piece of a download that is refused ends it.
pub(crate) const MAX_WAITING: usize = 1 << 16;

#[cfg(test)]
impl Reads {
    /// Returns how many reads are in flight.
    pub(super) fn used(&self) -> usize {
        self.0.all.used()
    }

    /// Takes all reads.
    pub(super) fn hold_all(&self) -> Vec<impl Sized + use<>> {
        let roots = 0..READS_IN_FLIGHT / OF_TEMPLATE;
        let enter = |n: usize| self.0.all.try_enter((n.to_string().into(), true));
        roots
            .flat_map(|n| std::iter::from_fn(move || enter(n)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::{Context, Poll, Waker};

    use sekisho_certs::HostName;

    use super::*;
    use crate::site::Root;
    use crate::site::Template;

    fn folder(reads: &Reads, root: &str, host: &str, tenant: &str) -> FolderReads {
        reads.of(Folder {
            root: &Root::of_operator(Template::parse(root, &["{host}"]).unwrap()),
            host: &HostName::parse(host).unwrap(),
            tenant: &Tenant::parse(tenant).unwrap(),
        })
    }

    fn of_no_mount() -> Reads {
        Reads::on(Mounts::of(""))
    }

    fn take_all(folder: &FolderReads) -> Vec<ReadPermit> {
        std::iter::from_fn(|| folder.try_permit()).collect()
    }

    #[test]
    fn no_folder_takes_the_reads_of_others() {
        let reads = of_no_mount();
        for tenant in ["", "acme"] {
            let hung = take_all(&folder(&reads, "/srv/hung", "a.example", tenant));
            assert_eq!(hung.len(), OF_FOLDER);
            let same = folder(&reads, "/srv/hung", "b.example", tenant);
            assert!(same.try_permit().is_none());
            let other = folder(&reads, "/srv/other", "a.example", tenant);
            assert!(other.try_permit().is_some());
            drop(hung);
            assert!(same.try_permit().is_some());
        }
    }

    #[test]
    fn a_root_that_tenants_share_takes_no_more_than_a_folder() {
        let reads = of_no_mount();
        let hung = take_all(&folder(&reads, "/srv/hung", "a.example", "acme"));
        assert_eq!(hung.len(), OF_FOLDER);
        let same = folder(&reads, "/srv/hung", "b.example", "other");
        assert!(same.try_permit().is_none());
        drop(hung);
        assert!(same.try_permit().is_some());
    }

    #[test]
    fn the_folders_of_one_template_leave_reads_to_others() {
        for (tenant, most) in [("", OF_TEMPLATE), ("acme", OF_TENANT / 2)] {
            let reads = of_no_mount();
            let host = |n| folder(&reads, "/mnt/{host}", &format!("{n}.example"), tenant);
            let hung: Vec<_> = (0..20).flat_map(|n| take_all(&host(n))).collect();
            assert_eq!(hung.len(), most);
            let other = folder(&reads, "/srv/{host}", "0.example", tenant);
            assert!(other.try_permit().is_some());
        }
    }

    /// Reads of a machine with a disk, and a mount at `/srv/nfs`.
    fn of_two_devices() -> Reads {
        Reads::on(Mounts::of(
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:41 / /srv/nfs rw - nfs4 nas:/a rw",
        ))
    }

    #[test]
    fn the_folders_of_one_device_leave_reads_to_others() {
        let reads = of_two_devices();
        let root = |above, n, tenant: &str| {
            let root = format!("/srv/{above}/{tenant}/{n}");
            folder(&reads, &root, "a.example", tenant)
        };
        let hang = |tenant| -> Vec<_> {
            let folders = (0..8).map(|n| root("nfs", n, tenant));
            folders.flat_map(|folder| take_all(&folder)).collect()
        };
        let mut hung: Vec<_> = ["1", "2", "3"].into_iter().flat_map(hang).collect();
        let same = root("nfs", 0, "4").try_permit();
        assert!(same.is_some(), "three tenants leave permits to a fourth");
        drop(same);
        hung.extend(["4", "5"].into_iter().flat_map(hang));
        assert_eq!(hung.len(), OF_DEVICE);
        assert!(root("nfs", 0, "6").try_permit().is_none());
        assert!(root("disk", 0, "6").try_permit().is_some());
    }

    /// All tenants' folders lie on one disk, which is slow.
    #[test]
    fn a_quiet_tenant_has_its_turn_on_a_device_for_which_many_wait() {
        let reads = of_two_devices();
        let busy = (0..40).flat_map(|tenant| (0..3).map(move |root| (tenant, root)));
        let busy = busy.map(|(tenant, root)| {
            let root = format!("/srv/{tenant}/{root}");
            folder(&reads, &root, "a.example", &format!("t{tenant}"))
        });
        let busy: Vec<_> = busy.collect();
        let quiet = folder(&reads, "/srv/quiet", "a.example", "quiet");
        let asking = busy.iter().flat_map(|folder| [folder; OF_FOLDER]);
        let mut waits: Vec<_> = asking.map(|folder| Box::pin(folder.permit())).collect();
        let mut context = Context::from_waker(Waker::noop());
        let mut under_way = VecDeque::new();
        let mut poll = |under_way: &mut VecDeque<_>| {
            waits.retain_mut(|wait| match wait.as_mut().poll(&mut context) {
                Poll::Ready(permit) => {
                    under_way.push_back(permit.unwrap());
                    false
                }
                Poll::Pending => true,
            });
        };
        poll(&mut under_way);
        assert_eq!(under_way.len(), OF_DEVICE);
        let mut turn = Box::pin(quiet.permit());
        let mut context = Context::from_waker(Waker::noop());
        for ended in 0.. {
            if turn.as_mut().poll(&mut context).is_ready() {
                break;
            }
            assert!(ended <= busy.len(), "each root had its turn before");
            drop(under_way.pop_front());
            poll(&mut under_way);
        }
    }

    #[test]
    fn the_folders_of_one_tenant_leave_reads_to_others() {
        let reads = of_no_mount();
        let root = |n, tenant: &str| folder(&reads, &format!("/{tenant}/{n}"), "a.example", tenant);
        for (tenant, most) in [("acme", OF_TENANT), ("", OF_NO_TENANT)] {
            let hung: Vec<_> = (0..20).flat_map(|n| take_all(&root(n, tenant))).collect();
            assert_eq!(hung.len(), most);
            assert!(root(0, "other").try_permit().is_some());
        }
    }
}
