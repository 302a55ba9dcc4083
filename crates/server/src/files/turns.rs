//! Read permits, shared fairly between roots.

use std::sync::Arc;

use sekisho_certs::HostName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::shares::Shares;
use crate::site::Root;

/// Limits on file reads in flight.
///
/// A read of a hung mount keeps its permit. Hence one folder takes at most
/// [`OF_FOLDER`] of the [`READS_IN_FLIGHT`] permits. A root with `{host}` names
/// many folders, often on one mount: together they take at most
/// [`OF_TEMPLATE`].
#[derive(Debug)]
pub(crate) struct Turns {
    pub(super) all: Arc<Semaphore>,
    shares: Shares<String>,
}

/// Semaphores that a read of one folder must pass.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    folder: Arc<Semaphore>,
    template: Option<Arc<Semaphore>>,
    all: Arc<Semaphore>,
}

/// Permit for one read. A read holds it until the system call returns.
#[derive(Debug)]
pub(crate) struct Turn {
    _folder: OwnedSemaphorePermit,
    _template: Option<OwnedSemaphorePermit>,
    _all: OwnedSemaphorePermit,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self {
            all: Arc::new(Semaphore::new(READS_IN_FLIGHT)),
            shares: Shares::default(),
        }
    }

    /// Returns the share of `root`'s folder for `host`.
    pub(crate) fn share(&self, root: &Root, host: &HostName) -> Share {
        let folder = self.shares.share(&*root.fill(host.as_str()), OF_FOLDER);
        let has_host = !root.variable(host).is_empty();
        Share {
            folder,
            template: has_host.then(|| self.shares.share(&**root.text(), OF_TEMPLATE)),
            all: Arc::clone(&self.all),
        }
    }
}

impl Share {
    /// Waits for a permit. None only if a semaphore were closed, which none is.
    pub(crate) async fn turn(&self) -> Option<Turn> {
        // The folder's semaphore comes first: a read that waits there holds no
        // shared permit.
        let folder = Arc::clone(&self.folder).acquire_owned().await.ok()?;
        let template = match &self.template {
            Some(template) => Some(Arc::clone(template).acquire_owned().await.ok()?),
            None => None,
        };
        Some(Turn {
            _folder: folder,
            _template: template,
            _all: Arc::clone(&self.all).acquire_owned().await.ok()?,
        })
    }

    /// Takes a permit without waiting, if there is one.
    pub(crate) fn try_turn(&self) -> Option<Turn> {
        let folder = Arc::clone(&self.folder).try_acquire_owned().ok()?;
        let template = match &self.template {
            Some(template) => Some(Arc::clone(template).try_acquire_owned().ok()?),
            None => None,
        };
        Some(Turn {
            _folder: folder,
            _template: template,
            _all: Arc::clone(&self.all).try_acquire_owned().ok()?,
        })
    }
}

/// File reads in flight over all workers: enough to keep a disk busy. Their
/// threads touch 8 KiB of stack each, which is negligible.
pub(crate) const READS_IN_FLIGHT: usize = 64;
/// Reads in flight in one folder: seven hung folders leave permits to others.
pub(crate) const OF_FOLDER: usize = 8;
/// Reads in flight in all folders of one root with `{host}`.
const OF_TEMPLATE: usize = READS_IN_FLIGHT / 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Template;

    fn share(turns: &Turns, root: &str, host: &str) -> Share {
        let root = Root::of_operator(Template::parse(root, &["{host}"]).unwrap());
        turns.share(&root, &HostName::parse(host).unwrap())
    }

    fn take_all(share: &Share) -> Vec<Turn> {
        std::iter::from_fn(|| share.try_turn()).collect()
    }

    #[test]
    fn no_folder_takes_the_turns_of_others() {
        let turns = Turns::new();
        let hung = take_all(&share(&turns, "/srv/hung", "a.example"));
        assert_eq!(hung.len(), OF_FOLDER);
        let same = share(&turns, "/srv/hung", "b.example");
        assert!(same.try_turn().is_none());
        let other = share(&turns, "/srv/other", "a.example");
        assert!(other.try_turn().is_some());
        drop(hung);
        assert!(same.try_turn().is_some());
    }

    #[test]
    fn the_folders_of_one_template_leave_turns_to_others() {
        let turns = Turns::new();
        let hosts = (0..20).map(|n| share(&turns, "/mnt/{host}", &format!("{n}.example")));
        let hung: Vec<_> = hosts.flat_map(|share| take_all(&share)).collect();
        assert_eq!(hung.len(), OF_TEMPLATE);
        let other = share(&turns, "/srv/{host}", "0.example");
        assert!(other.try_turn().is_some());
    }
}
