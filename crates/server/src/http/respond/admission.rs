//! Admission of requests by the rule of their path: who may ask, how often, how many at once,
//! with which certificate and password, and with how long a body.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use super::Gates;
use crate::connection::request::RequestContext;
use crate::limits::budget::Prefix;
use crate::limits::in_flight::RequestPermit;
use crate::limits::network::Networks;
use crate::limits::rates::{Rates, Scope};
use crate::observe::metrics::{Metrics, RequestRefusal};
use crate::site::body::{self, plain};
use crate::site::{Action, Auth, Rule, RuleOptions};

/// Request that its rule takes.
#[derive(Debug, Default)]
pub(super) struct Admitted<'r> {
    /// Name of the user whose password the request carries, if the rule has users.
    pub(super) user: Option<&'r str>,
    /// Permit of the request, if the rule bounds those in flight.
    pub(super) in_flight: Option<Arc<RequestPermit>>,
}

/// Refusal of a request by its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) reason: RequestRefusal,
    /// Field of the answer that tells how to ask again.
    field: Option<(HeaderName, HeaderValue)>,
}

/// Asks a rule whether it takes a request:
///
/// 1. its client's address is allowed, and not denied;
/// 2. its client has shown a trusted certificate, if the rule wants one;
/// 3. its client's prefix has fewer requests in flight than it may have;
/// 4. its client's prefix keeps its rate;
/// 5. the host keeps its rate;
/// 6. it carries the password of a user, if the rule has users;
/// 7. its body of at least `length` bytes is within the limit. Only upstreams get a body.
///
/// # Errors
/// The first that is not so. The request counts for the rates before it.
pub(super) async fn admit<'r>(
    context: &RequestContext<'_>,
    gates: &Gates,
    rule: &'r Rule,
    (fields, length): (&HeaderMap, u64),
) -> Result<Admitted<'r>, Refused> {
    let mut admitted = Admitted::default();
    if let Some(options) = &rule.options {
        let client = context.is_client_known.then_some(context.client);
        if !is_allowed(client, options) {
            return Err(Refused::of(RequestRefusal::Address));
        }
        let has_certificate = context.connection.tls.client_certificate.is_some();
        if options.client_certificate && !has_certificate {
            return Err(Refused::of(RequestRefusal::Certificate));
        }
        if let Some(most) = options.in_flight {
            let scope = Scope {
                pattern: context.pattern,
                rule: options.in_flight_scope,
            };
            let permit = gates.in_flight.enter(scope, context.client.into(), most);
            let refused = || Refused::until(RequestRefusal::InFlight, IN_FLIGHT_PAUSE);
            admitted.in_flight = Some(Arc::new(permit.ok_or_else(refused)?));
        }
        keep_rates(context, &gates.rates, options)?;
        if let Some(auth) = &options.auth {
            admitted.user = Some(gates.passwords.admit(context, auth, fields).await?);
        }
    }
    let gets_body = match rule.action {
        Action::Upstream(_) | Action::Scripts(..) | Action::Programs(_) => true,
        Action::Files(_) | Action::Redirect(_) | Action::Status { .. } => false,
    };
    if gets_body && length > rule.body_limit() {
        return Err(Refused::of(RequestRefusal::Body));
    }
    Ok(admitted)
}

fn keep_rates(
    context: &RequestContext<'_>,
    rates: &Rates,
    options: &RuleOptions,
) -> Result<(), Refused> {
    let scope = Scope {
        pattern: context.pattern,
        rule: options.rate_scope,
    };
    if let Some(rate) = options.rate_client {
        let client = Prefix::from(context.client);
        let burst = options.rate_burst.unwrap_or(rate);
        let taken = rates.take(scope, Some(client), rate, burst);
        taken.map_err(|wait| Refused::until(RequestRefusal::ClientRate, wait))?;
    }
    if let Some(rate) = options.rate_host {
        let taken = rates.take(scope, None, rate, rate);
        taken.map_err(|wait| Refused::until(RequestRefusal::HostRate, wait))?;
    }
    Ok(())
}

/// Returns whether a client may ask. One that is not known is in no network.
fn is_allowed(client: Option<IpAddr>, options: &RuleOptions) -> bool {
    let lies_in = |networks: &Networks| client.is_some_and(|client| networks.contain(client));
    !lies_in(&options.deny) && options.allow.as_ref().is_none_or(lies_in)
}

impl Refused {
    pub(super) fn of(reason: RequestRefusal) -> Self {
        Self {
            reason,
            field: None,
        }
    }

    /// Asks for the password of a user.
    pub(super) fn challenge(auth: &Auth) -> Self {
        Self {
            reason: RequestRefusal::Password,
            field: Some((WWW_AUTHENTICATE, auth.challenge.clone())),
        }
    }

    /// Lets the client try again after `wait`.
    pub(super) fn until(reason: RequestRefusal, wait: Duration) -> Self {
        // Whole seconds, rounded up: a client that waits is not early.
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self {
            reason,
            field: Some((RETRY_AFTER, seconds.into())),
        }
    }

    /// Makes the answer, and counts it.
    pub(crate) fn answer(&self, metrics: &Metrics) -> Response<body::Body> {
        metrics.request_refused(self.reason);
        let mut response = plain(match self.reason {
            RequestRefusal::Address | RequestRefusal::Certificate => StatusCode::FORBIDDEN,
            RequestRefusal::Body => StatusCode::PAYLOAD_TOO_LARGE,
            RequestRefusal::ClientRate
            | RequestRefusal::HostRate
            | RequestRefusal::InFlight
            | RequestRefusal::PasswordRate => StatusCode::TOO_MANY_REQUESTS,
            RequestRefusal::Password => StatusCode::UNAUTHORIZED,
            RequestRefusal::PasswordsLate => StatusCode::SERVICE_UNAVAILABLE,
        });
        if let Some((name, value)) = &self.field {
            response.headers_mut().insert(name, value.clone());
        }
        response
    }
}

/// `Retry-After` of a client with too many requests in flight. Nobody knows when one ends.
const IN_FLIGHT_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::network::Network;

    fn networks(texts: &[&str]) -> Networks {
        texts
            .iter()
            .map(|text| Network::parse(text).unwrap())
            .collect()
    }

    #[test]
    fn deny_prevails_over_allow() {
        let all = RuleOptions::default();
        let intranet = RuleOptions {
            allow: Some(networks(&["10.0.0.0/8", "2001:db8::/32"])),
            deny: networks(&["10.9.0.0/16"]),
            ..RuleOptions::default()
        };
        let without = RuleOptions {
            deny: networks(&["192.0.2.0/24"]),
            ..RuleOptions::default()
        };
        for (client, by_all, by_intranet, by_without) in [
            ("10.1.2.3", true, true, true),
            ("::ffff:10.1.2.3", true, true, true),
            ("10.9.2.3", true, false, true),
            ("2001:db8::1", true, true, true),
            ("192.0.2.1", true, false, false),
            ("::ffff:192.0.2.1", true, false, false),
        ] {
            let client = Some(client.parse().unwrap());
            assert_eq!(is_allowed(client, &all), by_all, "{client:?}");
            assert_eq!(is_allowed(client, &intranet), by_intranet, "{client:?}");
            assert_eq!(is_allowed(client, &without), by_without, "{client:?}");
        }
        // Whom a proxy hides is in no network.
        assert!(is_allowed(None, &all) && is_allowed(None, &without));
        assert!(!is_allowed(None, &intranet));
    }

    #[test]
    fn a_wait_is_said_in_whole_seconds() {
        for (millis, said) in [(1, "1"), (999, "1"), (1000, "1"), (1001, "2")] {
            let wait = Duration::from_millis(millis);
            let refused = Refused::until(RequestRefusal::HostRate, wait);
            let response = refused.answer(&Metrics::default());
            assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(response.headers()[RETRY_AFTER], said);
        }
        let refused = Refused::of(RequestRefusal::Address).answer(&Metrics::default());
        assert!(refused.headers().get(RETRY_AFTER).is_none());
    }
}
