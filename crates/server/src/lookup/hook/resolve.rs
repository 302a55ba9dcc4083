//! From a hook's answer to what is served.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::{Absence, HostName, LookupError, Outcome, Served};
use tokio::time::{Instant, timeout_at};

use super::{Answer, Choice, ClientFacts, Hook, Question};
use crate::limits::settings::Defaults;
use crate::lookup::ask::{Charge, Hosts};
use crate::lookup::virtual_host::VirtualHost;
use crate::observe::metrics::LookupResult;

/// The hook, and what its choices are looked up with.
pub(crate) struct Chooser {
    pub(crate) hook: Arc<dyn Hook>,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) defaults: Arc<Defaults>,
}

/// Source of answers for one connection.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) chooser: &'a Chooser,
    pub(crate) facts: &'a Arc<ClientFacts>,
    /// The listening address as configured, whose default may be chosen.
    pub(crate) listen: SocketAddr,
}

/// Record that a hook's choice leads to.
pub(crate) struct Resolved {
    pub(crate) served: Arc<Served<VirtualHost>>,
    /// The name that was looked up; none for a certificate that the hook gave.
    pub(crate) host: Option<HostName>,
    /// The lookup's revision before that.
    pub(crate) revision: u64,
    /// Until when the choice holds, if the record is unchanged.
    pub(crate) until: Instant,
    /// How the name was looked up.
    pub(crate) lookup: LookupResult,
}

/// Reason why a hook's choice leads to no record.
pub(crate) enum Unserved {
    /// The hook refuses the client.
    Refused(u8),
    /// The hook failed, and its policy refuses; or it did not answer in time.
    HookFailed,
    /// The choice is the default, and the address has none.
    NoDefault,
    /// The host is not there.
    Absent(Absence, LookupResult),
    /// The lookup of this host failed.
    LookupFailed(HostName, LookupError, LookupResult),
}

impl Asking<'_> {
    /// Asks the hook what a client of this server name gets, and looks that up, all
    /// before `deadline`, which [`Hosts::ask`] may move. Returns the word for the choice too,
    /// which [`is_failure`] reads.
    /// The client is charged if the choice leads to nothing.
    pub(crate) async fn resolve(
        &self,
        server_name: Option<&HostName>,
        deadline: &mut Instant,
    ) -> (&'static str, Result<Resolved, Unserved>) {
        let question = Question {
            server_name: server_name.cloned(),
            facts: Arc::clone(self.facts),
            deadline: *deadline,
        };
        let answered = timeout_at(*deadline, self.chooser.hook.answer(question)).await;
        let Ok(answer) = answered else {
            self.chooser.hosts.log_limits.hook_late(server_name);
            return (LATE, Err(Unserved::HookFailed));
        };
        let word = match answer.failed {
            true => FAILED,
            false => answer.choice.as_str(),
        };
        (word, self.follow(answer, server_name, deadline).await)
    }

    /// Follows an answer to what is served.
    async fn follow(
        &self,
        answer: Answer,
        server_name: Option<&HostName>,
        deadline: &mut Instant,
    ) -> Result<Resolved, Unserved> {
        let Answer {
            choice,
            failed,
            charge,
            until,
        } = answer;
        let default = || self.chooser.defaults.of(self.listen);
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
                self.chooser.hosts.metrics.lookup(LookupResult::Hook);
                return Ok(Resolved {
                    served,
                    host: None,
                    revision: 0,
                    until,
                    lookup: LookupResult::Hook,
                });
            }
            Choice::Use(name) => Some(name),
            Choice::Default => default().cloned(),
            Choice::Lookup => server_name.or_else(default).cloned(),
        };
        match host {
            Some(host) => self.look_up(host, charge, until, deadline).await,
            None => {
                spend(charge);
                Err(Unserved::NoDefault)
            }
        }
    }

    async fn look_up(
        &self,
        host: HostName,
        charge: Option<Charge>,
        until: Instant,
        deadline: &mut Instant,
    ) -> Result<Resolved, Unserved> {
        let hosts = &self.chooser.hosts;
        let revision = hosts.lookup.revision();
        let prefix = self.facts.client.ip().into();
        // Boxed: keeps this future out of the one that awaits the hook (1 KB).
        let asked = hosts.ask(&host, prefix, deadline, charge);
        let asked = Box::pin(asked);
        match asked.await {
            (Outcome::Found(served), how) => Ok(Resolved {
                served,
                host: Some(host),
                revision,
                until,
                lookup: how,
            }),
            (Outcome::Absent(absence), how) => Err(Unserved::Absent(absence, how)),
            (Outcome::Failed(error), how) => Err(Unserved::LookupFailed(host, error, how)),
        }
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
