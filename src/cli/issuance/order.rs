//! Orders several certificates at once, and tells what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use sekisho_certs::{LineageName, printable};
use sekisho_issuance::acme::RevocationReason;
use sekisho_issuance::issuer::{Issued, Issuer, NoCertificate};
use tokio::task::JoinSet;

use crate::cli::cert::joined;
use crate::config::Config;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::rfc3339;
use crate::terminal::progress;

/// Orders of one command.
pub(crate) struct Ordering<'a> {
    pub(super) config: &'a Config,
    pub(super) issuer: Arc<Issuer>,
    /// Orders in flight at most.
    pub(super) most: usize,
}

impl Ordering<'_> {
    /// Works on these lineages now. Standard output names each certificate as it is
    /// stored, standard error tells of long waits for DNS and lists at the end those that
    /// failed.
    pub(crate) async fn order(&self, names: Vec<LineageName>) -> Result<Ended> {
        let bar = progress::bar(|| Some(names.len() as u64));
        let (mut names, mut failures) = (names.into_iter(), BTreeMap::new());
        let mut orders = JoinSet::new();
        let mut waits = self.issuer.dns_waits();
        loop {
            while orders.len() < self.most
                && let Some(name) = names.next()
            {
                let issuer = Arc::clone(&self.issuer);
                orders.spawn(async move { (issuer.issue(&name).await, name) });
            }
            let ended = tokio::select! {
                ended = orders.join_next() => ended,
                Ok(()) = waits.changed() => {
                    let waiting = waits.borrow_and_update().clone();
                    bar.suspend(|| waiting.iter().for_each(|one| eprintln!("{one}")));
                    continue;
                }
            };
            let Some(ended) = ended else {
                break;
            };
            match ended.context("the work was broken off")? {
                (Ok(issued), _) => bar.suspend(|| println!("{}", line(&issued))),
                (Err(failed), name) => drop(failures.insert(name, failed)),
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(tell(self.config, &failures))
    }

    /// Revokes the present certificate of a lineage. With `reissue` another one is
    /// ordered, by a server if not by this command.
    pub(crate) async fn revoke(
        &self,
        name: &LineageName,
        reason: Option<RevocationReason>,
        reissue: bool,
    ) -> Result<()> {
        let revoked = self.issuer.revoke(name, reason, reissue).await;
        revoked.map_err(|failed| anyhow::anyhow!("{}", failed.why))
    }
}

fn line(issued: &Issued) -> String {
    let until = match issued.not_after {
        0 => String::new(),
        until => format!("  until {}", rfc3339(until)),
    };
    format!("{}{until}  {}", issued.credential, joined(&issued.names))
}

fn tell(config: &Config, failures: &BTreeMap<LineageName, NoCertificate>) -> Ended {
    let mut settings = BTreeMap::new();
    for (name, failed) in failures {
        let NoCertificate { why, next, setting } = failed;
        let next = next.map(|next| format!("; tried again at {}", rfc3339(next)));
        let (why, next) = (printable(why), next.unwrap_or_default());
        eprintln!("failed: {name}: {why}{next}");
        settings.extend(setting.as_deref().map(|one| (&one.key, one)));
    }
    for setting in settings.into_values() {
        let located = config.located(setting.clone()).to_string();
        eprintln!("hint: {}", printable(&located));
    }
    let mut whys = failures.values().map(|failed| &failed.why);
    if whys.clone().any(|why| is_unreached(why)) {
        eprintln!("hint: {UNREACHED}");
    }
    if whys.any(|why| is_unknown_account(why)) {
        eprintln!("hint: {UNKNOWN_ACCOUNT}");
    }
    Ended::of(failures.is_empty())
}

/// Tells whether a CA reached no server of this catalog, by the type of the problem
/// (RFC 8555, section 6.7).
fn is_unreached(why: &str) -> bool {
    let types = ["connection", "incorrectResponse", "tls", "unauthorized"];
    let is_one = types.iter().any(|one| why.contains(&format!(": {one}: ")));
    // Some CAs say `connection` of a name that leads nowhere.
    is_one && !why.contains("could not resolve")
}

/// Tells whether the CA does not know the account that the store has.
fn is_unknown_account(why: &str) -> bool {
    why.contains(": accountDoesNotExist: ")
}

const UNKNOWN_ACCOUNT: &str = "'sekisho acme account deactivate --yes' removes the account from \
                               the store; the next order makes another one";
const UNREACHED: &str = "CAs validate at ports 80 and 443 of each name; 'sekisho serve' with \
                         this store must listen there, as [listen] http and https";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_validation_that_reaches_no_server_is_recognized() {
        for (why, unreached) in [
            (
                "pebble: validating a.example: a.example: connection: refused",
                true,
            ),
            (
                "le: validating a.example: a.example: unauthorized: 404",
                true,
            ),
            ("le: order for a.example: rateLimited: too many", false),
            (
                "pebble: validating a.example: a.example: connection: could not resolve URL",
                false,
            ),
            ("le: order for connection.example: caa: forbidden", false),
        ] {
            assert_eq!(is_unreached(why), unreached, "{why}");
        }
    }

    #[test]
    fn an_account_that_the_ca_does_not_know_is_recognized() {
        let why = "pebble: order for a.example: accountDoesNotExist: Account 7 not found.";
        assert!(is_unknown_account(why));
        assert!(!is_unknown_account(
            "pebble: order for a.example: unauthorized: no"
        ));
    }
}
