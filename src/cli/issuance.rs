//! Orders certificates from commands, as a server does.

mod order;
mod wanted;
mod wishes;

use std::sync::Arc;

use anyhow::anyhow;
use sekisho_certs::{Challenges, Clock, HostPattern, KeyType, Sealer};
use sekisho_issuance::admission::orderable;
use sekisho_issuance::issuer::Issuer;
use sekisho_issuance::settings::{Served, Settings};
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
        let (order, dns) = (self.settings.solvers.clone(), self.settings.dns.clone());
        let solvers = Solvers::new(order, dns, self.settings.served.clone());
        for names in certificates {
            for name in *names {
                orderable(name).map_err(|why| Usage(format!("{name}: {why}")))?;
            }
            let proof = solvers.of(names, wishes.solver());
            proof.map_err(|why| anyhow!("{}: {why}", self.config.file.display()))?;
        }
        Ok(())
    }

    /// Returns the zone that servers answer for.
    ///
    /// # Errors
    /// Says what to configure.
    pub(crate) fn served(&self) -> Result<&Served> {
        self.settings.served.as_ref().ok_or_else(|| {
            anyhow!(
                "{} has no zone that servers answer for; add [acme.dns.\"dcv.example.net\"] with \
                 serve = [\"0.0.0.0:53\"], a zone of yours, here and on all servers",
                self.config.file.display()
            )
        })
    }

    /// Tells whether a zone of the configuration holds a name: it needs no CNAME.
    pub(crate) fn has_zone(&self, name: &HostPattern) -> bool {
        let bare = name.wildcard_parent().unwrap_or(name.as_str());
        self.settings.dns.iter().any(|one| one.zone.holds(bare))
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
