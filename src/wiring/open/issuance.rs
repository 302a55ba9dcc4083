//! Makes the issuer of the configuration.

use std::sync::Arc;

use sekisho_certs::Clock;
use sekisho_issuance::issuer::Issuer;

use super::Opened;
use crate::config::Config;
use crate::terminal::failure::Result;

/// Reads the secrets and roots of `[acme]`, and sends nothing. None without the
/// section, which needs a catalog.
pub(crate) fn issuer(config: &Config, opened: &Opened) -> Result<Option<Issuer>> {
    let (Some(sealer), Some(challenges)) = (&opened.catalog, &opened.challenges) else {
        return Ok(None);
    };
    let Some(settings) = config.issuance()? else {
        return Ok(None);
    };
    let (sealer, challenges) = (sealer.clone(), Arc::clone(challenges));
    let issuer = Issuer::new(settings, sealer, challenges, Clock::System);
    Ok(Some(issuer.map_err(|error| config.located(error))?))
}
