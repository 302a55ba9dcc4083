//! Gives up privileges of the process beyond its user's rights.

use rustix::io;
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set,
    set_capabilities, set_no_new_privs,
};

/// Keeps programs that are started from here from gaining rights by their files
/// (prctl(2), `PR_SET_NO_NEW_PRIVS`), and gives up all capabilities but the one
/// to bind low ports. Threads inherit both: only the allocator's thread starts
/// earlier. Failure is not fatal.
pub(crate) fn give_up_privileges() {
    if let Err(error) = set_no_new_privs(true) {
        tracing::debug!(%error, "programs that are started may gain privileges");
    }
    keep_capabilities(CapabilitySet::NET_BIND_SERVICE);
}

/// Gives up the right to bind low ports, in this thread and in threads that it
/// starts later.
pub(crate) fn give_up_binding() {
    keep_capabilities(CapabilitySet::empty());
}

/// Passes the right to bind low ports on to programs that this thread starts, if the
/// thread has it. After [`give_up_privileges`], the rights of a program's file no longer
/// count.
pub(crate) fn pass_on_binding() {
    let binding = CapabilitySet::NET_BIND_SERVICE;
    let raise = |sets: CapabilitySets| -> io::Result<()> {
        if !sets.permitted.contains(binding) {
            return Ok(());
        }
        let sets = CapabilitySets {
            inheritable: sets.inheritable | binding,
            ..sets
        };
        set_capabilities(None, sets)?;
        configure_capability_in_ambient_set(binding, true)
    };
    if let Err(error) = capabilities(None).and_then(raise) {
        tracing::debug!(%error, "a process that takes over may bind no low ports");
    }
}

/// Warns if the server runs as root.
pub(crate) fn check_user() {
    if geteuid().is_root() {
        tracing::warn!(
            "running as root: an error here could reach the whole machine; use a user of its \
             own, with CAP_NET_BIND_SERVICE for ports below 1024 (AmbientCapabilities= in a \
             systemd unit)"
        );
    }
}

/// Reduces the capabilities to `kept`. Root keeps its own: they may be needed
/// to serve other users' files.
fn keep_capabilities(kept: CapabilitySet) {
    if geteuid().is_root() {
        return;
    }
    let limit = |sets: CapabilitySets| -> io::Result<()> {
        let sets = CapabilitySets {
            effective: sets.effective & kept,
            permitted: sets.permitted & kept,
            inheritable: sets.inheritable & kept,
        };
        set_capabilities(None, sets)
    };
    if let Err(error) = capabilities(None).and_then(limit) {
        tracing::debug!(%error, "capabilities are kept");
    }
}
