//! Routes requests of a connection whose handshake asked a hook.

use std::sync::Arc;

use sekisho_certs::{HostName, Outcome};
use tokio::time::Instant;

use super::{GONE, MISDIRECTED, Routes, UNKNOWN, looked_up, name_of};
use crate::connection::request::{Connection, NameOfLookup, Refused, Target};
use crate::lookup::hook::{Asking, Hooked, Kept, Unserved, is_failure};
use crate::observe::metrics::LookupResult;

impl Routes {
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
        connection: &Connection,
        hooked: &Hooked,
        host: &str,
    ) -> Result<Target, Refused> {
        let lookup = &self.routing.hosts.lookup;
        let known = |host: &str| hooked.current(host, lookup, |kept| target(connection, kept));
        if let Some(target) = known(host) {
            return Ok(target);
        }
        let name = name_of(host)?;
        // A request may write the name otherwise, such as with a dot behind it.
        if let Some(target) = known(name.as_str()) {
            return Ok(target);
        }
        let is_own = connection.name.as_ref() == Some(&name);
        if !is_own && !self.covers(&name) {
            return Err(MISDIRECTED);
        }
        let mut deadline = Instant::now() + self.routing.hosts.lookup_limit;
        let kept = hooked.kept(&name).filter(|kept| !kept.has_ended());
        if let Some(kept) = kept
            && let Some(mut kept) = self.confirm(connection, kept, &mut deadline).await?
        {
            hooked.keep(&kept);
            return Ok(target(connection, &mut kept));
        }
        self.choose(connection, hooked, (name, is_own), deadline)
            .await
    }

    /// Does step 4: looks the record of a choice up again. None if it has changed.
    async fn confirm(
        &self,
        connection: &Connection,
        kept: Kept,
        deadline: &mut Instant,
    ) -> Result<Option<Kept>, Refused> {
        let Some(host) = kept.host.clone() else {
            return Ok(None);
        };
        let hosts = &self.routing.hosts;
        let revision = hosts.lookup.revision();
        let asked = hosts.ask(&host, connection.prefix, deadline, None);
        match asked.await {
            (Outcome::Found(found), how) => Ok(kept.confirmed(found, revision, how)),
            (Outcome::Absent(_), _) => Ok(None),
            (Outcome::Failed(error), how) => {
                hosts.log_limits.failed(&host, &error);
                Err(looked_up(UNKNOWN, how))
            }
        }
    }

    /// Does step 5: asks the hook, and keeps its choice.
    async fn choose(
        &self,
        connection: &Connection,
        hooked: &Hooked,
        (name, is_own): (HostName, bool),
        mut deadline: Instant,
    ) -> Result<Target, Refused> {
        let chooser = self.routing.chooser.as_ref();
        let chooser = chooser.expect("the handshake has asked it");
        let asking = Asking {
            chooser,
            facts: &hooked.facts,
            listen: hooked.listen,
        };
        let gone = if is_own { GONE } else { MISDIRECTED };
        let (word, resolved) = asking.resolve(Some(&name), &mut deadline).await;
        let before = hooked.kept(&name).filter(|_| is_own);
        if is_failure(word)
            && let Some(before) = before
        {
            return self.serve_on(connection, hooked, before).await;
        }
        let resolved = resolved.map_err(|unserved| match unserved {
            Unserved::Refused(_) | Unserved::NoDefault => gone,
            Unserved::Absent(_, how) => looked_up(gone, how),
            Unserved::HookFailed => UNKNOWN,
            Unserved::LookupFailed(host, error, how) => {
                chooser.hosts.log_limits.failed(&host, &error);
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
        Ok(target(connection, &mut kept))
    }

    /// Serves on with the choice for the connection's own name, since the hook failed. The
    /// handshake is over: what fails now must not end the service of its client.
    async fn serve_on(
        &self,
        connection: &Connection,
        hooked: &Hooked,
        kept: Kept,
    ) -> Result<Target, Refused> {
        let kept = match kept.host {
            None => kept,
            Some(_) => {
                let mut deadline = Instant::now() + self.routing.hosts.lookup_limit;
                let confirmed = self.confirm(connection, kept, &mut deadline).await?;
                confirmed.ok_or(UNKNOWN)?
            }
        };
        let mut kept = kept.prolonged();
        self.routing.hosts.metrics.lookup(LookupResult::HookKept);
        hooked.keep(&kept);
        Ok(target(connection, &mut kept))
    }
}

/// Makes a target of a choice, and takes how its name was looked up.
fn target(connection: &Connection, kept: &mut Kept) -> Target {
    Target {
        served: Arc::clone(&kept.served),
        other: (connection.name.as_ref() != Some(&kept.name)).then(|| kept.name.clone()),
        lookup: kept.lookup.take(),
        name_of_lookup: match &kept.host {
            None => NameOfLookup::None,
            Some(host) if *host == kept.name => NameOfLookup::Asked,
            Some(host) => NameOfLookup::Chosen(host.clone()),
        },
    }
}
