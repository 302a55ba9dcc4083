//! The handshake hook in a build without the feature `hook`: the configuration refuses
//! the section.

use std::sync::Arc;

use sekisho_certs::{Lookup, Store, metrics};
use sekisho_server::hook::{Clients, Hook};
use sekisho_server::{Publisher, VirtualHost};
use tokio::runtime::Handle;

use crate::config::Config;

/// Script of `[hook]`, of which there is none.
pub(crate) enum Opened {}

impl Opened {
    pub(crate) fn parts(&self) -> (Arc<dyn Hook>, Clients) {
        match *self {}
    }

    pub(crate) fn register(&self, _: &mut metrics::Registry) {
        match *self {}
    }
}

/// Opens nothing.
#[expect(
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    reason = "the signature of the function with the feature"
)]
pub(crate) fn open(
    _: &Config,
    _: Arc<Publisher>,
    _: &Arc<Lookup<VirtualHost>>,
    _: &Handle,
    _: bool,
) -> anyhow::Result<Option<Opened>> {
    Ok(None)
}

/// Checks nothing.
#[expect(
    clippy::unused_async,
    reason = "the signature of the function with the feature"
)]
pub(crate) async fn check(_: &Config, _: Arc<dyn Store>) -> anyhow::Result<()> {
    Ok(())
}
