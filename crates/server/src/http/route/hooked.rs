//! Routes requests of a connection whose handshake asked a hook.

use sekisho_certs::{HostName, lock};
use tokio::time::Instant;

use super::{GONE, Known, MISDIRECTED, Routes, UNKNOWN, refusal};
use crate::connection::request::{Connection, Refused, Target};
use crate::lookup::hook::{Hooked, Kept, Unserved, is_failure};
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
        name: HostName,
        mut deadline: Instant,
    ) -> Result<Target, Refused> {
        // A request may write the name otherwise, such as with a dot behind it.
        if let Some(target) = self.current(connection, name.as_str()) {
            return Ok(target);
        }
        let has_ended = |known: &Known| known.choice.as_ref().is_none_or(Kept::has_ended);
        let known = self.known(&name).filter(|known| !has_ended(known));
        if let Some(known) = known
            && let Some(known) = self.confirm(connection, known, &mut deadline).await?
        {
            return Ok(self.note(connection, known));
        }
        self.choose(connection, hooked, name, deadline).await
    }

    /// Does step 4: looks the record of a choice up again. None if it has changed.
    async fn confirm(
        &self,
        connection: &Connection,
        mut known: Known,
        deadline: &mut Instant,
    ) -> Result<Option<Known>, Refused> {
        let Some(host) = known.chosen() else {
            return Ok(None);
        };
        let hosts = &self.routing.hosts;
        let asked = hosts.ask(host, connection.prefix, deadline, None);
        match asked.await {
            Ok(found) if found.served.host().is_same(known.found.served.host()) => {
                known.found = found;
                Ok(Some(known))
            }
            Err(unfound) if unfound.absence.is_none() => Err(refusal(&unfound, UNKNOWN)),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Does step 5: asks the hook, and keeps its choice.
    async fn choose(
        &self,
        connection: &Connection,
        hooked: &Hooked,
        name: HostName,
        mut deadline: Instant,
    ) -> Result<Target, Refused> {
        let chooser = self.routing.chooser.as_ref();
        let chooser = chooser.expect("the handshake has asked it");
        let is_own = connection.name.as_ref() == Some(&name);
        let gone = if is_own { GONE } else { MISDIRECTED };
        let (word, resolved) = chooser.resolve(hooked, Some(&name), &mut deadline).await;
        let before = self.known(&name).filter(|_| is_own);
        if is_failure(word)
            && let Some(before) = before
        {
            return self.serve_on(connection, before).await;
        }
        let (found, choice) = resolved.map_err(|unserved| match unserved {
            Unserved::Refused(_) | Unserved::NoDefault => gone,
            Unserved::HookFailed => UNKNOWN,
            Unserved::Unfound(unfound) => refusal(&unfound, gone),
        })?;
        let lookup = found.lookup;
        let new = Known {
            name,
            found,
            choice: Some(choice),
        };
        if before.is_some_and(|before| !before.is_choice(&new)) || !self.is_alike(&new.found) {
            return Err(Refused { lookup, ..gone });
        }
        Ok(self.note(connection, new))
    }

    /// Serves on with the choice for the connection's own name, since the hook failed. The
    /// handshake is over: what fails now must not end the service of its client.
    async fn serve_on(&self, connection: &Connection, mut known: Known) -> Result<Target, Refused> {
        if known.chosen().is_some() {
            let mut deadline = Instant::now() + self.routing.hosts.lookup_limit;
            let confirmed = self.confirm(connection, known, &mut deadline).await?;
            known = confirmed.ok_or(UNKNOWN)?;
        }
        if let Some(choice) = &mut known.choice {
            choice.prolong();
        }
        known.found.lookup = Some(LookupResult::HookKept);
        self.routing.hosts.metrics.lookup(LookupResult::HookKept);
        Ok(self.note(connection, known))
    }

    fn known(&self, name: &HostName) -> Option<Known> {
        lock(&self.known)
            .iter()
            .find(|known| known.name == *name)
            .cloned()
    }
}

impl Known {
    /// Returns the name that the hook's choice was looked up by; none for a certificate
    /// that the hook gave.
    fn chosen(&self) -> Option<&HostName> {
        self.choice.as_ref()?.host.as_ref()
    }

    /// Returns whether the hook has chosen the same again: the same host, or a
    /// certificate under the same key.
    fn is_choice(&self, new: &Self) -> bool {
        let [own, other] = [self, new].map(|known| &known.found.served.host().record.pattern);
        match (self.chosen(), new.chosen()) {
            (None, None) => own == other,
            (own, other) => own == other,
        }
    }
}
