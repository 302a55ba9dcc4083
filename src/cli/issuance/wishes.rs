//! Arguments about a certificate in particular.

use sekisho_certs::{KeyType, Wishes};
use sekisho_issuance::acme::ChallengeType;
use sekisho_issuance::settings::Settings;

use crate::terminal::failure::{Result, Usage};

/// Where a certificate differs from `[acme]`, for its renewals, too.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct WishArgs {
    /// Order from this configured CA alone
    #[arg(long, value_name = "NAME")]
    ca: Option<String>,
    /// Type of the key: ecdsa or rsa
    #[arg(long, value_name = "KIND", value_parser = key_type)]
    pub(super) key: Option<KeyType>,
    /// The CA's profile, such as shortlived
    #[arg(long, value_name = "P")]
    profile: Option<String>,
    /// The challenge to try first: tls-alpn-01, http-01 or dns-01
    #[arg(long, value_name = "S", value_parser = solver)]
    pub(crate) solver: Option<ChallengeType>,
}

impl WishArgs {
    /// Refuses what `[acme]` lacks.
    pub(super) fn check(&self, settings: &Settings) -> Result<()> {
        let cas = settings.cas.iter().map(|one| one.ca.name.as_str());
        let cas: Vec<_> = cas.collect();
        if let Some(ca) = self.ca.as_deref().filter(|ca| !cas.contains(ca)) {
            let known = cas.join(", ");
            return Err(Usage(format!("--ca {ca}: [acme] cas has {known}")).into());
        }
        if let Some(solver) = self.solver.filter(|one| !settings.solvers.contains(one)) {
            let known: Vec<_> = settings.solvers.iter().map(|one| one.as_str()).collect();
            let (solver, known) = (solver.as_str(), known.join(", "));
            return Err(Usage(format!("--solver {solver}: [acme] solvers has {known}")).into());
        }
        Ok(())
    }

    pub(super) fn solver(&self) -> Option<&'static str> {
        self.solver.map(ChallengeType::as_str)
    }

    /// Changes the given wishes. `configured` is the type of key without a wish.
    pub(super) fn apply(&self, wishes: &mut Wishes, configured: KeyType) {
        if let Some(ca) = &self.ca {
            wishes.ca = Some(ca.clone());
        }
        if let Some(key_type) = self.key {
            wishes.key_type = Some(key_type).filter(|one| *one != configured);
        }
        if let Some(profile) = &self.profile {
            wishes.profile = Some(profile.clone());
        }
        if let Some(solver) = self.solver() {
            wishes.solver = Some(solver.to_owned());
        }
    }
}

fn key_type(text: &str) -> Result<KeyType, String> {
    let known = KeyType::parse(text).filter(|one| *one != KeyType::Ed25519);
    known.ok_or_else(|| "there are ecdsa and rsa; no CA issues for others".into())
}

fn solver(text: &str) -> Result<ChallengeType, String> {
    let known = ChallengeType::ALL
        .into_iter()
        .find(|one| one.as_str() == text);
    known.ok_or_else(|| "there are tls-alpn-01, http-01 and dns-01".into())
}
