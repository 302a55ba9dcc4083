//! Makes the issuer of the configuration.

use std::sync::Arc;

use sekisho_certs::{Challenges, Clock, Sealer};
use sekisho_issuance::issuer::Issuer;

use super::Opened;
use crate::config::Config;
use crate::terminal::failure::Result;

/// Reads the secrets and roots of `[acme]`, and sends nothing. None without the
/// section.
pub(crate) fn issuer(
    config: &Config,
    sealer: &Sealer,
    challenges: &Arc<Challenges>,
) -> Result<Option<Issuer>> {
    let Some(settings) = config.issuance()? else {
        return Ok(None);
    };
    let (sealer, challenges) = (sealer.clone(), Arc::clone(challenges));
    let issuer = Issuer::new(settings, sealer, challenges, Clock::System);
    Ok(Some(issuer.map_err(|error| config.located(error))?))
}

/// Makes the answers to challenges of a catalog, whoever orders; none for another
/// store.
pub(crate) fn challenges(opened: &Opened) -> Option<Arc<Challenges>> {
    opened.catalog.as_ref()?;
    let challenges = Challenges::of(Arc::clone(&opened.store) as _, Clock::System);
    Some(Arc::new(challenges))
}
