//! Orders certificates from commands, as a server does.

mod order;
mod wanted;
mod wishes;

use std::sync::Arc;

use anyhow::anyhow;
use sekisho_certs::{Challenges, Clock, HostPattern, KeyType, Sealer};
use sekisho_issuance::admission::orderable;
use sekisho_issuance::issuer::Issuer;
use sekisho_issuance::settings::Settings;
use sekisho_issuance::solver::Solvers;

use crate::config::Config;
use crate::terminal::failure::{Result, Usage};

pub(crate) use order::Ordering;
pub(crate) use wanted::Wanted;
pub(crate) use wishes::WishArgs;

/// `[acme]` of the configuration, with its secrets.
pub(crate) struct Issuance<'a> {
    config: &'a Config,
    settings: Settings,
    /// Type of keys that differ from no wish.
    pub(crate) key_type: KeyType,
}

impl<'a> Issuance<'a> {
    /// Reads the secrets. Fails without `[acme]`.
    pub(crate) fn of(config: &'a Config) -> Result<Self> {
        let settings = config.issuance()?.ok_or_else(|| {
            anyhow!(
                "{} has no [acme]; it names the CAs that certificates are ordered from, as in \
                 cas = [\"letsencrypt\"] and agree = true",
                config.file.display()
            )
        })?;
        Ok(Self {
            config,
            key_type: settings.key.key_type(),
            settings,
        })
    }

    /// Checks, before anything is stored, whether certificates for these names can be
    /// ordered at all.
    pub(crate) fn check(&self, certificates: &[&[HostPattern]], wishes: &WishArgs) -> Result<()> {
        wishes.check(&self.settings)?;
        let solvers = self.solvers();
        for names in certificates {
            for name in *names {
                orderable(name).map_err(|why| Usage(format!("{name}: {why}")))?;
            }
            let proof = solvers.of(names, wishes.solver());
            proof.map_err(|why| anyhow!("{}: {why}", self.config.file.display()))?;
        }
        Ok(())
    }

    /// Makes the ways to prove names.
    pub(crate) fn solvers(&self) -> Solvers {
        let (order, dns) = (self.settings.solvers.clone(), self.settings.dns.clone());
        Solvers::new(order, dns, self.settings.served.clone())
    }

    /// Makes what orders certificates into this catalog.
    pub(crate) fn ordering(self, sealer: &Sealer) -> Result<Ordering<'a>> {
        let most = self.settings.orders;
        let challenges = Arc::new(Challenges::new(sealer.clone(), Clock::System));
        let issuer = Issuer::new(self.settings, sealer.clone(), challenges, Clock::System);
        let issuer = issuer.map_err(|error| self.config.located(error))?;
        Ok(Ordering {
            config: self.config,
            issuer: Arc::new(issuer),
            most,
        })
    }
}
