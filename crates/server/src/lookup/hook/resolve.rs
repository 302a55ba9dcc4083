//! From a hook's answer to what is served.

use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::HostName;
use sekisho_certs::hook::Charge;
use tokio::time::{Instant, timeout_at};

use super::{Answer, Choice, Hook, Hooked, Kept, Question};
use crate::limits::settings::Defaults;
use crate::lookup::ask::{FoundHost, Hosts, Unfound};
use crate::observe::metrics::LookupResult;

/// The hook, and what its choices are looked up with.
pub(crate) struct Chooser {
    pub(crate) hook: Arc<dyn Hook>,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) defaults: Arc<Defaults>,
}

/// Reason why a hook's choice leads to no record.
pub(crate) enum Unserved {
    /// The hook refuses the client.
    Refused(u8),
    /// The hook failed, and its policy refuses; or it did not answer in time.
    HookFailed,
    /// The choice is the default, and the address has none.
    NoDefault,
    /// The host is not there, or its lookup failed.
    Unfound(Unfound),
}

impl Chooser {
    /// Asks the hook what a client of `hooked` gets for this server name, and looks that up,
    /// all before `deadline`, which [`Hosts::ask`] may move. Returns the word for the choice
    /// too, which [`is_failure`] reads.
    /// The client is charged if the choice leads to nothing.
    pub(crate) async fn resolve(
        &self,
        hooked: &Hooked,
        server_name: Option<&HostName>,
        deadline: &mut Instant,
    ) -> (&'static str, Result<(FoundHost, Kept), Unserved>) {
        let question = Question {
            server_name: server_name.cloned(),
            facts: Arc::clone(&hooked.facts),
            deadline: *deadline,
        };
        let answered = timeout_at(*deadline, self.hook.answer(question)).await;
        let Ok(answer) = answered else {
            self.hosts.log_limits.hook_late(server_name);
            return (LATE, Err(Unserved::HookFailed));
        };
        let word = match answer.failed {
            true => FAILED,
            false => answer.choice.as_str(),
        };
        let followed = self.follow(hooked, answer, server_name, deadline);
        (word, followed.await)
    }

    /// Follows an answer to what is served.
    async fn follow(
        &self,
        hooked: &Hooked,
        answer: Answer,
        server_name: Option<&HostName>,
        deadline: &mut Instant,
    ) -> Result<(FoundHost, Kept), Unserved> {
        let Answer {
            choice,
            failed,
            charge,
            until,
        } = answer;
        let default = || self.defaults.of(hooked.listen);
        let until = match failed {
            true => until.min(Instant::now() + FAILED_HOLDS),
            false => until,
        };
        let host = match choice {
            Choice::Refuse(_) if failed => return Err(Unserved::HookFailed),
            Choice::Refuse(alert) => {
                spend(charge);
                return Err(Unserved::Refused(alert));
            }
            Choice::Made(served) => {
                self.hosts.metrics.lookup(LookupResult::Hook);
                let found = FoundHost {
                    served,
                    revision: 0,
                    lookup: Some(LookupResult::Hook),
                };
                return Ok((found, Kept::new(None, until)));
            }
            Choice::Use(name) => Some(name),
            Choice::Default => default().cloned(),
            Choice::Lookup => server_name.or_else(default).cloned(),
        };
        let Some(host) = host else {
            spend(charge);
            return Err(Unserved::NoDefault);
        };
        let prefix = hooked.facts.client.ip().into();
        // Boxed: keeps this future out of the one that awaits the hook (1 KB).
        let asked = Box::pin(self.hosts.ask(&host, prefix, deadline, charge));
        let found = asked.await.map_err(Unserved::Unfound)?;
        Ok((found, Kept::new(Some(host), until)))
    }
}

/// Tells whether the hook failed, by its word: what its policy chose says nothing of the
/// host.
pub(crate) fn is_failure(word: &str) -> bool {
    [FAILED, LATE].contains(&word)
}

fn spend(charge: Option<Charge>) {
    if let Some(charge) = charge {
        charge();
    }
}

/// Words for a hook that failed, and for one that did not answer in time.
const FAILED: &str = "failed";
const LATE: &str = "late";
/// How long a choice holds that the policy for failures made: the hook may be back.
const FAILED_HOLDS: Duration = Duration::from_secs(10);
