//! Sites that answer in another host's place: the key `as`.

use http::StatusCode;
use sekisho_certs::{Absence, HostName, HostRecord, Outcome, Served, clock};

use super::context::ConnContext;
use crate::connection::request::{Alias, Refused, Target};
use crate::lookup::ask::ask_any;
use crate::lookup::virtual_host::VirtualHost;

/// Leads a request to the host whose site answers in its own host's place:
///
/// 1. that host is looked up, as a request's host is, but that nobody is charged and no
///    certificate is obtained. It needs none;
/// 2. it has the tenant and the TLS policy of the request's host;
/// 3. its site has no `as` itself.
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
    let (outcome, _) = ask_any(&hosts.lookup, &alias, permit, drop, deadline).await;
    let own = &asked.served.host().record;
    let why = match outcome {
        Outcome::Found(served) => match refusal(own, &served) {
            Some(why) => why.into(),
            None => {
                return Ok(Target {
                    other: Some(asked.name(&context.connection).clone()),
                    lookup: asked.lookup,
                    name_of_lookup: asked.name_of_lookup,
                    alias: Some(Alias {
                        name: alias,
                        asked: asked.served,
                    }),
                    served,
                });
            }
        },
        Outcome::Absent(Absence::NoHost) => "no such host".into(),
        Outcome::Absent(Absence::Disabled) => "disabled".into(),
        Outcome::Absent(Absence::NoCredential) => "its record can't be served".into(),
        Outcome::Failed(error) => format!("the lookup failed: {error}"),
    };
    let name = asked.name(&context.connection);
    let tenant = &own.tenant;
    hosts.log_limits.alias_failed(name, tenant, &alias, &why);
    Err(Refused {
        lookup: asked.lookup,
        ..UNUSABLE
    })
}

/// Returns why a site can't answer for a host with the record `own`; none if it can.
fn refusal(own: &HostRecord, served: &Served<VirtualHost>) -> Option<&'static str> {
    let record = &served.host().record;
    if record.tenant != own.tenant {
        Some("another tenant")
    } else if record.tls != own.tls {
        Some("another TLS policy")
    } else if served.value().site().alias().is_some() {
        Some("answers as another host itself")
    } else {
        None
    }
}

const UNUSABLE: Refused = Refused::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "The site of this host can't be served now.\n",
);
