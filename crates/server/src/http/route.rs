//! Routes requests: finds the host of a request, and checks that this
//! connection may ask for it.

mod hooked;

use std::sync::{Arc, Mutex, PoisonError};

use http::{Request, StatusCode};
use sekisho_certs::{HostName, NameError, Outcome, Served, clock};

use crate::connection::handshake::Looked;
use crate::connection::request::{Connection, NameOfLookup, Refused, Target};
use crate::lookup::ask::Hosts;
use crate::lookup::authority;
use crate::lookup::hook::{Chooser, Hooked};
use crate::lookup::virtual_host::VirtualHost;
use crate::observe::metrics::LookupResult;

/// Parts that routing uses.
pub(crate) struct Routing {
    pub(crate) hosts: Arc<Hosts>,
    /// Hook that chooses before the lookup; none by default.
    pub(crate) chooser: Option<Arc<Chooser>>,
}

/// Hosts that requests of a connection may reach.
pub(crate) struct Routes {
    /// The record of the handshake: its certificate, tenant and TLS policy hold
    /// for the connection.
    sent: Arc<Served<VirtualHost>>,
    /// Choices of the hook, if there is one; `known` is empty then.
    hooked: Option<Box<Hooked>>,
    /// Lookup results of names that requests asked for, at most [`MAX_KNOWN`].
    known: Mutex<Vec<Known>>,
    routing: Arc<Routing>,
}

struct Known {
    name: HostName,
    served: Arc<Served<VirtualHost>>,
    /// The lookup's revision before `name` was looked up.
    revision: u64,
    /// How the handshake looked `name` up; taken by the first request.
    lookup: Option<LookupResult>,
}

impl Routes {
    /// Makes the routes of a connection.
    pub(crate) fn new(looked: Looked, routing: Arc<Routing>) -> Self {
        let Looked {
            served,
            name,
            revision,
            lookup,
            hooked,
        } = looked;
        let known = name.filter(|_| hooked.is_none()).map(|name| Known {
            name,
            served: Arc::clone(&served),
            revision,
            lookup: Some(lookup),
        });
        Self {
            sent: served,
            hooked,
            known: Mutex::new(known.into_iter().collect()),
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
    /// # Errors
    /// 400 without a valid host, 421 for a host that this connection must not
    /// reach (RFC 9110, section 15.5.20), 503 if the lookup failed.
    pub(crate) async fn route<B>(
        &self,
        connection: &Connection,
        request: &Request<B>,
    ) -> Result<Target, Refused> {
        let host = authority::of(request).ok_or(BAD_HOST)?;
        if let Some(hooked) = &self.hooked {
            // Boxed: no request without a hook has room for it.
            return Box::pin(self.route_hooked(connection, hooked, host)).await;
        }
        if let Some(target) = self.known(connection, host) {
            return Ok(target);
        }
        let name = name_of(host)?;
        let own = connection.name.as_ref() == Some(&name);
        if !own && !self.covers(&name) {
            return Err(MISDIRECTED);
        }
        let gone = if own { GONE } else { MISDIRECTED };
        let hosts = &self.routing.hosts;
        let revision = hosts.lookup.revision();
        let mut deadline = clock::monotonic() + hosts.lookup_limit;
        let asked = hosts.ask(&name, connection.prefix, &mut deadline, None);
        let (outcome, how) = asked.await;
        let served = match outcome {
            Outcome::Found(served) => served,
            Outcome::Absent(_) => return Err(looked_up(gone, how)),
            Outcome::Failed(error) => {
                hosts.log_limits.failed(&name, &error);
                return Err(looked_up(UNKNOWN, how));
            }
        };
        let (sent, found) = (&self.sent.host().record, &served.host().record);
        if (&sent.tenant, &sent.tls) != (&found.tenant, &found.tls) {
            return Err(looked_up(gone, how));
        }
        self.note(&name, &served, revision);
        Ok(Target {
            served,
            other: (!own).then_some(name),
            lookup: Some(how),
            name_of_lookup: NameOfLookup::Asked,
        })
    }

    fn known(&self, connection: &Connection, host: &str) -> Option<Target> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known
            .iter_mut()
            .find(|known| known.name.as_str().eq_ignore_ascii_case(host))?;
        let lookup = &self.routing.hosts.lookup;
        let current = lookup.is_current(&known.served, known.revision);
        current.then(|| Target {
            served: Arc::clone(&known.served),
            other: (connection.name.as_ref() != Some(&known.name)).then(|| known.name.clone()),
            lookup: known.lookup.take(),
            name_of_lookup: NameOfLookup::Asked,
        })
    }

    fn note(&self, name: &HostName, served: &Arc<Served<VirtualHost>>, revision: u64) {
        let new = Known {
            name: name.clone(),
            served: Arc::clone(served),
            revision,
            lookup: None,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.iter_mut().find(|known| known.name == *name) {
            Some(old) => *old = new,
            None => {
                known.truncate(MAX_KNOWN - 1);
                known.push(new);
            }
        }
    }

    /// Returns whether the certificate that was sent covers `name`. All
    /// credentials must: which one was sent is not known.
    fn covers(&self, name: &HostName) -> bool {
        let credentials = &self.sent.host().credentials;
        !credentials.is_empty() && credentials.iter().all(|credential| credential.covers(name))
    }
}

/// Returns the refusal of a request whose host was looked up.
fn looked_up(refusal: Refused, how: LookupResult) -> Refused {
    Refused {
        lookup: Some(how),
        ..refusal
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

pub(crate) const BAD_HOST: Refused = Refused {
    status: StatusCode::BAD_REQUEST,
    text: "The request must name one host, the same in its URL and its Host field.\n",
    ends: false,
    lookup: None,
};
const MISDIRECTED: Refused = Refused {
    status: StatusCode::MISDIRECTED_REQUEST,
    text: "This host is not served on this connection.\n",
    ends: false,
    lookup: None,
};
const GONE: Refused = Refused {
    status: StatusCode::MISDIRECTED_REQUEST,
    text: "This host is no longer served on this connection.\n",
    ends: true,
    lookup: None,
};
const UNKNOWN: Refused = Refused {
    status: StatusCode::SERVICE_UNAVAILABLE,
    text: "The lookup of this host failed. Try again later.\n",
    ends: false,
    lookup: None,
};

/// Names that one connection remembers; few pages use more.
const MAX_KNOWN: usize = 8;
