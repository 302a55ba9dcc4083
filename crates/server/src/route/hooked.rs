//! Routes requests of a connection whose handshake asked a hook.

use std::sync::Arc;

use sekisho_certs::{HostName, Outcome};
use tokio::time::Instant;

use super::{ConnContext, GONE, MISDIRECTED, Refused, Target, UNKNOWN, name_of};
use crate::ask::ask;
use crate::hook::{Asking, Hooked, Kept, Unserved, is_failure};
use crate::metrics::LookupResult;
use crate::shared::Shared;

impl ConnContext {
    /// Finds the host that answers a request, as [`Self::route`] does. In place of its
    /// steps 2, 4 and 5:
    ///
    /// 2. the connection's earlier choice for that name, until its end, while its
    ///    record needs no new lookup;
    /// 4. the record of that choice, looked up again: if it is unchanged, the choice
    ///    still holds; else the hook is asked again;
    /// 5. the new choice: for the connection's own name only what was chosen before,
    ///    in any case only with the same tenant and TLS policy. If the hook failed, what
    ///    was chosen before for the own name is served on, while its record is unchanged.
    ///
    /// # Errors
    /// As [`Self::route`]; 503 also if the hook failed and nothing is served on.
    pub(super) async fn route_hooked(
        &self,
        hooked: &Hooked,
        host: &str,
    ) -> Result<Target, Refused> {
        let lookup = &self.shared().lookup;
        let known = |host: &str| hooked.current(host, lookup, |kept| self.target(kept));
        if let Some(target) = known(host) {
            return Ok(target);
        }
        let name = name_of(host)?;
        // A request may write the name otherwise, such as with a dot behind it.
        if let Some(target) = known(name.as_str()) {
            return Ok(target);
        }
        let is_own = self.name.as_ref() == Some(&name);
        if !is_own && !self.covers(&name) {
            return Err(MISDIRECTED);
        }
        let mut deadline = Instant::now() + self.shared().limits.handshake;
        let kept = hooked.kept(&name).filter(|kept| !kept.has_ended());
        if let Some(kept) = kept
            && let Some(mut kept) = self.confirm(kept, &mut deadline).await?
        {
            hooked.keep(&kept);
            return Ok(self.target(&mut kept));
        }
        self.choose(hooked, name, is_own, deadline).await
    }

    /// Does step 4: looks the record of a choice up again. None if it has changed.
    async fn confirm(&self, kept: Kept, deadline: &mut Instant) -> Result<Option<Kept>, Refused> {
        let Some(host) = kept.host.clone() else {
            return Ok(None);
        };
        let Shared {
            lookup,
            budget,
            metrics,
            ..
        } = self.shared();
        let revision = lookup.revision();
        let asked = ask(lookup, budget, metrics, &host, self.prefix, deadline, None);
        match asked.await {
            (Outcome::Found(found), how) => Ok(kept.confirmed(found, revision, how)),
            (Outcome::Absent(_), _) => Ok(None),
            (Outcome::Failed(error), how) => {
                self.shared().log_limits.failed(&host, &error);
                Err(looked_up(UNKNOWN, how))
            }
        }
    }

    /// Does step 5: asks the hook, and keeps its choice.
    async fn choose(
        &self,
        hooked: &Hooked,
        name: HostName,
        is_own: bool,
        mut deadline: Instant,
    ) -> Result<Target, Refused> {
        let shared = self.shared();
        let asking = Asking {
            hook: shared.hook.as_deref().expect("the handshake has asked it"),
            shared,
            facts: &hooked.facts,
            listen: hooked.listen,
        };
        let gone = if is_own { GONE } else { MISDIRECTED };
        let (word, resolved) = asking.resolve(Some(&name), &mut deadline).await;
        let before = hooked.kept(&name).filter(|_| is_own);
        if is_failure(word)
            && let Some(before) = before
        {
            return self.serve_on(hooked, before).await;
        }
        let resolved = resolved.map_err(|unserved| match unserved {
            Unserved::Refused(_) | Unserved::NoDefault => gone,
            Unserved::Absent(_, how) => looked_up(gone, how),
            Unserved::HookFailed => UNKNOWN,
            Unserved::LookupFailed(host, error, how) => {
                shared.log_limits.failed(&host, &error);
                looked_up(UNKNOWN, how)
            }
        })?;
        let refused = |refusal| Err(looked_up(refusal, resolved.lookup));
        if before.is_some_and(|before| !before.is_choice(&resolved)) {
            return refused(gone);
        }
        let (sent, found) = (&self.sent.host().record, &resolved.served.host().record);
        if (&sent.tenant, &sent.tls) != (&found.tenant, &found.tls) {
            return refused(gone);
        }
        let mut kept = Kept::new(name, &resolved);
        hooked.keep(&kept);
        Ok(self.target(&mut kept))
    }

    /// Serves on with the choice for the connection's own name, since the hook failed. The
    /// handshake is over: what fails now must not end the service of its client.
    async fn serve_on(&self, hooked: &Hooked, kept: Kept) -> Result<Target, Refused> {
        let kept = match kept.host {
            None => kept,
            Some(_) => {
                let mut deadline = Instant::now() + self.shared().limits.handshake;
                let confirmed = self.confirm(kept, &mut deadline).await?;
                confirmed.ok_or(UNKNOWN)?
            }
        };
        let mut kept = kept.prolonged();
        self.shared().metrics.lookup(LookupResult::HookKept);
        hooked.keep(&kept);
        Ok(self.target(&mut kept))
    }

    /// Makes a target of a choice, and takes how its name was looked up.
    fn target(&self, kept: &mut Kept) -> Target {
        Target {
            served: Arc::clone(&kept.served),
            other: (self.name.as_ref() != Some(&kept.name)).then(|| kept.name.clone()),
            lookup: kept.lookup.take(),
        }
    }
}

fn looked_up(refusal: Refused, how: LookupResult) -> Refused {
    Refused {
        lookup: Some(how),
        ..refusal
    }
}
