//! Makes the issuer of the configuration.

use std::sync::Arc;

use sekisho_certs::{Challenges, Clock, Sealer};
use sekisho_issuance::issuer::Issuer;

use crate::cli::failure::Result;
use crate::config::Config;

/// Reads the secrets and roots of `[acme]`, and sends nothing. None without the
/// section.
pub(in crate::cli) fn issuer(
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

/// Makes the answers to challenges of a catalog, whoever orders.
pub(in crate::cli) fn challenges(sealer: &Sealer) -> Arc<Challenges> {
    Arc::new(Challenges::new(sealer.clone(), Clock::System))
}
