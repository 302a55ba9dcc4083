//! Routes requests: finds the host of a request, and checks that this
//! connection may ask for it.

mod hooked;
mod plain;

use std::sync::{Arc, Mutex};

use http::{Request, StatusCode};
use sekisho_certs::{HostName, Lookup, NameError, Served, clock, lock};

use crate::connection::handshake::Looked;
use crate::connection::request::{Connection, NameOfLookup, Refused, Target};
use crate::lookup::ask::{FoundHost, Hosts, Unfound};
use crate::lookup::authority;
use crate::lookup::hook::{Chooser, Hooked, Kept};
use crate::lookup::virtual_host::VirtualHost;

/// Parts that routing uses.
pub(crate) struct Routing {
    pub(crate) hosts: Arc<Hosts>,
    /// Hook that chooses before the lookup; none by default.
    pub(crate) chooser: Option<Arc<Chooser>>,
}

/// Hosts that requests of a connection may reach.
pub(crate) struct Routes {
    /// The record of the handshake: its certificate, tenant and TLS policy hold
    /// for the connection. None over plain HTTP.
    sent: Option<Arc<Served<VirtualHost>>>,
    /// State of the hook, if there is one: each of `known` has a choice then.
    hooked: Option<Box<Hooked>>,
    /// Results of names that requests asked for, at most [`MAX_KNOWN`].
    known: Mutex<Vec<Known>>,
    routing: Arc<Routing>,
}

/// Host that requests for a name reach.
#[derive(Clone)]
struct Known {
    name: HostName,
    found: FoundHost,
    /// The hook's choice, which the host was found by.
    choice: Option<Kept>,
}

impl Known {
    /// Returns whether requests need no new lookup, nor a new choice.
    fn is_current(&self, lookup: &Lookup<VirtualHost>) -> bool {
        match &self.choice {
            Some(choice) if choice.has_ended() => false,
            Some(Kept { host: None, .. }) => true,
            _ => lookup.is_current(&self.found.served, self.found.revision),
        }
    }

    /// Makes a target, and takes how its name was looked up.
    fn target(&mut self, connection: &Connection) -> Target {
        Target {
            served: Arc::clone(&self.found.served),
            other: (connection.name.as_ref() != Some(&self.name)).then(|| self.name.clone()),
            lookup: self.found.lookup.take(),
            name_of_lookup: match self.choice.as_ref().map(|choice| &choice.host) {
                Some(None) => NameOfLookup::None,
                Some(Some(host)) if *host != self.name => NameOfLookup::Chosen(host.clone()),
                _ => NameOfLookup::Asked,
            },
            alias: None,
        }
    }
}

impl Routes {
    /// Makes the routes of a connection.
    pub(crate) fn new(looked: Looked, routing: Arc<Routing>) -> Self {
        let Looked {
            name,
            found,
            hooked,
        } = looked;
        let sent = Arc::clone(&found.served);
        let (hooked, choice) = hooked.unzip();
        let known = name.map(|name| Known {
            name,
            found,
            choice,
        });
        Self {
            sent: Some(sent),
            hooked,
            known: Mutex::new(known.into_iter().collect()),
            routing,
        }
    }

    /// Makes the routes of a connection over plain HTTP, which may ask for any host.
    pub(crate) fn plain(routing: Arc<Routing>) -> Self {
        Self {
            sent: None,
            hooked: None,
            known: Mutex::default(),
            routing,
        }
    }

    /// Finds the host that answers a request:
    ///
    /// 1. the host of the request line and of the Host field, which agree;
    /// 2. the connection's earlier result for that name, while the lookup's
    ///    revision is the same and the record is fresh;
    /// 3. a name other than the connection's: only if the certificate that was
    ///    sent covers it;
    /// 4. a lookup by [`Hosts::ask`], whose load is charged to the client's prefix;
    /// 5. the record that was found: only with the same tenant and TLS policy.
    ///
    /// Over plain HTTP there is no handshake to compare with: [`Self::route_plain`] does
    /// steps 3 to 5.
    ///
    /// # Errors
    /// 400 without a valid host, 421 for a host that this connection must not
    /// reach (RFC 9110, section 15.5.20), 503 if the lookup failed.
    pub(crate) async fn route<B>(
        &self,
        connection: &Connection,
        request: &Request<B>,
    ) -> Result<Target, Refused> {
        let host = authority::of(request).ok_or(BAD_HOST)?;
        if let Some(target) = self.current(connection, host) {
            return Ok(target);
        }
        if self.sent.is_none() {
            // Boxed: no request over TLS has room for it.
            return Box::pin(self.route_plain(connection, host)).await;
        }
        let name = name_of(host)?;
        let own = connection.name.as_ref() == Some(&name);
        if !own && !self.covers(&name) {
            return Err(MISDIRECTED);
        }
        let gone = if own { GONE } else { MISDIRECTED };
        let hosts = &self.routing.hosts;
        let mut deadline = clock::monotonic() + hosts.lookup_limit;
        if let Some(hooked) = &self.hooked {
            // Boxed: no request without a hook has room for it.
            return Box::pin(self.route_hooked(connection, hooked, name, deadline)).await;
        }
        let asked = hosts.ask(&name, connection.prefix, &mut deadline, None);
        let found = asked.await.map_err(|unfound| refusal(&unfound, gone))?;
        if !self.is_alike(&found) {
            let lookup = found.lookup;
            return Err(Refused { lookup, ..gone });
        }
        let new = Known {
            name,
            found,
            choice: None,
        };
        Ok(self.note(connection, new))
    }

    /// Returns the earlier result for a name as a request writes it, if it is current.
    fn current(&self, connection: &Connection, host: &str) -> Option<Target> {
        let mut known = lock(&self.known);
        let mut all = known.iter_mut();
        let known = all.find(|known| known.name.as_str().eq_ignore_ascii_case(host))?;
        let is_current = known.is_current(&self.routing.hosts.lookup);
        is_current.then(|| known.target(connection))
    }

    /// Keeps a result instead of the earlier one for its name, and returns its target.
    fn note(&self, connection: &Connection, mut new: Known) -> Target {
        let target = new.target(connection);
        let mut known = lock(&self.known);
        match known.iter_mut().find(|known| known.name == new.name) {
            Some(old) => *old = new,
            None => {
                known.truncate(MAX_KNOWN - 1);
                known.push(new);
            }
        }
        target
    }

    /// Returns whether a host has the tenant and TLS policy of the handshake.
    fn is_alike(&self, found: &FoundHost) -> bool {
        let Some(sent) = &self.sent else { return false };
        let (sent, found) = (&sent.host().record, &found.served.host().record);
        (&sent.tenant, &sent.tls) == (&found.tenant, &found.tls)
    }

    /// Returns whether the certificate that was sent covers `name`. All
    /// credentials must: which one was sent is not known.
    fn covers(&self, name: &HostName) -> bool {
        let Some(sent) = &self.sent else { return false };
        let credentials = &sent.host().credentials;
        !credentials.is_empty() && credentials.iter().all(|credential| credential.covers(name))
    }
}

/// Returns the refusal of a request whose lookup led to no host: `gone` for an absence.
fn refusal(unfound: &Unfound, gone: Refused) -> Refused {
    Refused {
        lookup: Some(unfound.lookup),
        ..unfound.absence.map_or(UNKNOWN, |_| gone)
    }
}

/// Parses the host of a request.
fn name_of(host: &str) -> Result<HostName, Refused> {
    HostName::parse(host).map_err(|error| match error {
        // No certificate here can cover an IP address.
        NameError::Address => MISDIRECTED,
        _ => BAD_HOST,
    })
}

pub(crate) const BAD_HOST: Refused = Refused::new(
    StatusCode::BAD_REQUEST,
    "The request must name one host, the same in its URL and its Host field.\n",
);
const MISDIRECTED: Refused = Refused::new(
    StatusCode::MISDIRECTED_REQUEST,
    "This host is not served on this connection.\n",
);
const GONE: Refused = Refused::new(
    StatusCode::MISDIRECTED_REQUEST,
    "This host is no longer served on this connection.\n",
)
.ending();
const UNKNOWN: Refused = Refused::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "The lookup of this host failed. Try again later.\n",
);

/// Names that one connection remembers; few pages use more.
const MAX_KNOWN: usize = 8;
