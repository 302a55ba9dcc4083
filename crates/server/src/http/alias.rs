//! Sites that answer in another host's place: the key `as`.

use std::sync::Arc;

use http::StatusCode;
use sekisho_certs::{Absence, HostName, HostRecord, Outcome, Served, clock};

use super::context::ConnContext;
use crate::connection::request::{Alias, NameOfLookup, Refused, Target};
use crate::lookup::ask::ask_plain;
use crate::lookup::virtual_host::VirtualHost;

/// Leads a request to the host whose site answers in its own host's place:
///
/// 1. that host is looked up, as a request's host is, but that nobody is charged and no
///    certificate is obtained. It needs none;
/// 2. it has the tenant and the TLS policy of the request's host;
/// 3. its site is its own.
///
/// # Errors
/// 503 if one of these is not so. The log says which.
pub(super) async fn follow(
    context: &ConnContext,
    asked: Target,
    alias: HostName,
) -> Result<Target, Refused> {
    let hosts = &context.local.service.routing.hosts;
    let deadline = clock::monotonic() + hosts.lookup_limit;
    let permit = hosts.budget.admit(context.connection.prefix, deadline);
    let (outcome, _) = ask_plain(&hosts.lookup, &alias, permit, drop, deadline).await;
    let own = &asked.served.host().record;
    match usable(own, outcome) {
        Ok(served) => Ok(Target {
            other: Some(asked.name(&context.connection).clone()),
            lookup: asked.lookup,
            alias: Some(Alias {
                own: asked.served,
                name_of_own: asked.name_of_lookup,
                name: alias.clone(),
            }),
            name_of_lookup: NameOfLookup::Chosen(alias),
            served,
        }),
        Err(why) => {
            let name = asked.name(&context.connection);
            let log_limits = &hosts.log_limits;
            log_limits.alias_failed((name, &own.tenant), &alias, &why);
            Err(Refused {
                lookup: asked.lookup,
                ..UNUSABLE
            })
        }
    }
}

/// Returns the host that was found, unless its site can't answer for a host with the record
/// `own`. Says why.
fn usable(
    own: &HostRecord,
    outcome: Outcome<VirtualHost>,
) -> Result<Arc<Served<VirtualHost>>, String> {
    let served = match outcome {
        Outcome::Found(served) => served,
        Outcome::Absent(Absence::NoHost) => return Err("no such host".into()),
        Outcome::Absent(Absence::Disabled) => return Err("disabled".into()),
        Outcome::Absent(Absence::NoCredential) => return Err("its record can't be served".into()),
        Outcome::Failed(error) => return Err(format!("the lookup failed: {error}")),
    };
    let record = &served.host().record;
    let why = if record.tenant != own.tenant {
        "another tenant"
    } else if record.tls != own.tls {
        "another TLS policy"
    } else if served.value().site().alias().is_some() {
        "answers as another host itself"
    } else {
        return Ok(served);
    };
    Err(why.into())
}

const UNUSABLE: Refused = Refused::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "The site of this host can't be served now.\n",
);
