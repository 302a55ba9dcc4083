//! Reads what an issuer of the configuration works with.

use sekisho_issuance::acme::Ca;
use sekisho_issuance::admission::Admission;
use sekisho_issuance::settings::{SettingError, Settings};
use sekisho_issuance::solver::dns01::Dns01;

use crate::cli::failure::Result;
use crate::config::Config;

/// Reads the secrets and roots of `[acme]`, and sends nothing. None without the
/// section.
pub(in crate::cli) fn issuance(config: &Config) -> Result<Option<Settings>> {
    let Some(settings) = config.issuance()? else {
        return Ok(None);
    };
    verify(&settings).map_err(|error| config.located(error))?;
    Ok(Some(settings))
}

fn verify(settings: &Settings) -> Result<(), SettingError> {
    for options in &settings.cas {
        Ca::new(&options.ca)?;
    }
    Admission::new(settings.admission.clone())?;
    for zone in &settings.dns {
        let solver = Dns01::new(zone.solver.clone());
        solver.map_err(|error| SettingError::of_zone(&zone.zone, &error))?;
    }
    Ok(())
}
