//! Shows lineages: where the issuance and renewal of a certificate stand.

pub(crate) mod claims;
mod ended;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::slice;

use sekisho_certs::{
    Catalog, Claim, CredentialId, HostPattern, HostRecord, KeyType, LastError, Lineage,
    LineageName, SealedBytes, StoredCredential, printable,
};
use sekisho_issuance::schedule::{self, Seed, Validity, renewal_due};
use serde::Serialize;

use crate::cli::cert::joined;
use crate::cli::named::Named;
use crate::terminal::failure::Result;
use crate::terminal::output::rfc3339;

pub(crate) use claims::Claims;
pub(crate) use ended::{Changed, end};

/// JSON form of a lineage.
#[derive(Serialize)]
pub(crate) struct View<'a> {
    name: &'a str,
    tenant: &'a str,
    names: Vec<&'a str>,
    state: State,
    /// Time of the next attempt, or look at the CA's renewal information.
    due: Option<String>,
    /// Time of the renewal, unless the CA suggests another; null without a certificate.
    renewal: Option<String>,
    credential: Option<String>,
    /// Failures in a row.
    failures: u32,
    last_error: Option<Failure<'a>>,
    claim: Option<Claimed<'a>>,
    ca: Option<&'a str>,
    profile: Option<&'a str>,
    key_type: Option<&'static str>,
    solver: Option<&'a str>,
}

#[derive(Serialize)]
struct Failure<'a> {
    at: String,
    text: &'a str,
}

#[derive(Serialize)]
struct Claimed<'a> {
    holder: &'a str,
    until: String,
}

/// State of a lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// A process works on it, or an order was begun.
    Ordering,
    /// Tried once a day, after many failures.
    Suspended,
    /// Admission refused the name: nothing is ordered before a visit that it admits.
    Refused,
    /// The last attempt failed.
    Failing,
    /// Nothing is to be done.
    Off,
    /// There was no certificate yet.
    Waiting,
    /// The certificate is renewed when it is due.
    Scheduled,
}

impl State {
    /// Returns the state; the first in the order of the variants counts.
    fn of<S>(lineage: &Lineage<S>) -> Self {
        let suspended = || {
            let (error, due) = (lineage.last_error.as_ref()?, lineage.due?);
            Some(schedule::is_suspended(lineage.attempts, error.at, due))
        };
        match () {
            () if lineage.claim.is_some() => Self::Ordering,
            () if suspended().unwrap_or(false) => Self::Suspended,
            () if lineage.is_refused() => Self::Refused,
            () if lineage.attempts > 0 => Self::Failing,
            // Of a revoked certificate is kept that its key must not be used again.
            () if lineage.order.is_some() && lineage.due.is_some() => Self::Ordering,
            () if lineage.due.is_none() => Self::Off,
            () if lineage.credential.is_none() => Self::Waiting,
            () => Self::Scheduled,
        }
    }
}

impl<'a> View<'a> {
    /// Makes the form of a lineage; `credentials` has its certificate, if it is known.
    pub(crate) fn new<S, K>(
        lineage: &'a Lineage<S>,
        credentials: &[StoredCredential<K>],
        now: i64,
    ) -> Self {
        let wishes = &lineage.wishes;
        let failure = |LastError { at, text }: &'a LastError| Failure {
            at: rfc3339(*at),
            text,
        };
        Self {
            name: lineage.name.as_str(),
            tenant: lineage.tenant.as_str(),
            names: lineage.names.iter().map(HostPattern::as_str).collect(),
            state: State::of(lineage),
            due: lineage.due.map(rfc3339),
            renewal: renewal(lineage, credentials, now).map(rfc3339),
            credential: lineage.credential.map(|id| id.to_string()),
            failures: lineage.attempts,
            last_error: lineage.last_error.as_ref().map(failure),
            claim: lineage.claim.as_ref().map(|claim| Claimed {
                holder: &claim.holder,
                until: until(claim),
            }),
            ca: wishes.ca.as_deref(),
            profile: wishes.profile.as_deref(),
            key_type: wishes.key_type.map(KeyType::as_str),
            solver: wishes.solver.as_deref(),
        }
    }
}

/// Columns of a list.
pub(crate) const COLUMNS: [&str; 4] = ["NAMES", "STATE", "NEXT", "LAST ERROR"];

/// Returns the cells of a list, for [`COLUMNS`].
pub(crate) fn cells<S>(lineage: &Lineage<S>, now: i64) -> Vec<String> {
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".into());
    vec![
        joined(&lineage.names),
        state(lineage, lineage.due, now),
        or_dash(next(lineage, now)),
        or_dash(error(lineage)),
    ]
}

/// Writes a lineage for people, with values in this column. `credentials` has its
/// certificate, if it is known.
pub(crate) fn write<S, K>(
    out: &mut impl Write,
    lineage: &Lineage<S>,
    credentials: &[StoredCredential<K>],
    now: i64,
    column: usize,
) -> io::Result<()> {
    let renewal = renewal(lineage, credentials, now);
    let mut row = |label: &str, value: String| writeln!(out, "{label:<column$}{value}");
    let names = match lineage.names.as_slice() {
        [only] if only.as_str() == lineage.name.as_str() => String::new(),
        names => format!(": {}", joined(names)),
    };
    row("lineage", format!("{}{names}", lineage.name))?;
    row("state", state(lineage, renewal, now))?;
    if let Some(error) = error(lineage) {
        row("error", error)?;
    }
    let look = lineage.due.filter(|due| Some(*due) < renewal);
    let look = look.filter(|_| State::of(lineage) == State::Scheduled);
    let look = look.map(|due| format!("look at the CA's renewal information at {}", rfc3339(due)));
    match next(lineage, now).or(look) {
        Some(next) => row("next", next),
        None => Ok(()),
    }
}

/// Returns when a lineage's certificate is renewed, unless the CA suggests another time.
/// Before that it is due several times, to look at what the CA suggests.
fn renewal<S, K>(
    lineage: &Lineage<S>,
    credentials: &[StoredCredential<K>],
    now: i64,
) -> Option<i64> {
    let (id, due) = (lineage.credential?, lineage.due?);
    let credential = credentials.iter().find(|one| one.id == id);
    let own = credential.map(|one| {
        let validity = Validity {
            not_before: one.not_before,
            not_after: one.not_after,
        };
        renewal_due(
            one.not_before,
            validity,
            None,
            Seed::of(lineage.name.as_str()),
        )
    });
    // What is due now is renewed now: it may have been revoked.
    Some(own.filter(|own| now < due && due < *own).unwrap_or(due))
}

/// Returns the lineages of a host or a credential; none if it is not there.
pub(crate) async fn of(catalog: &dyn Catalog, named: &Named) -> Result<Vec<Lineage<SealedBytes>>> {
    match named {
        Named::Host(pattern) => match catalog.hosts(slice::from_ref(pattern)).await?.pop() {
            Some(record) => of_host(catalog, &record).await,
            None => Ok(Vec::new()),
        },
        Named::Credential(id) => Ok(of_credential(catalog, *id).await?.into_iter().collect()),
    }
}

/// Returns the lineages of a host, by name: those of its credentials, and the one
/// that is to give it the first.
pub(crate) async fn of_host(
    catalog: &dyn Catalog,
    record: &HostRecord,
) -> Result<Vec<Lineage<SealedBytes>>> {
    let ids: Vec<_> = record.references.iter().map(|(_, id)| id).collect();
    let name = LineageName::from(&record.pattern);
    let mut named = catalog.lineages(&[name]).await?;
    named.retain(|lineage| {
        let is_first = lineage.credential.is_none() || record.references.is_empty();
        is_first && lineage.names.contains(&record.pattern)
    });
    let found = catalog.lineages_of(&ids).await?.into_iter().chain(named);
    let by_name: BTreeMap<_, _> = found.map(|one| (one.name.clone(), one)).collect();
    Ok(by_name.into_values().collect())
}

/// Returns the lineage of a credential.
pub(crate) async fn of_credential(
    catalog: &dyn Catalog,
    id: CredentialId,
) -> Result<Option<Lineage<SealedBytes>>> {
    Ok(catalog.lineages_of(&[id]).await?.into_iter().next())
}

fn state<S>(lineage: &Lineage<S>, renewal: Option<i64>, now: i64) -> String {
    let failures = lineage.attempts;
    match State::of(lineage) {
        State::Ordering => match &lineage.claim {
            None => "order under way".into(),
            Some(claim) => {
                let holder = printable(&claim.holder);
                format!(
                    "order under way, claimed by {holder} until {}",
                    until(claim)
                )
            }
        },
        State::Suspended => format!("suspended after {failures} failures: tried once a day"),
        State::Refused => "refused on first access; its next visit asks again".into(),
        State::Failing if failures == 1 => "failing, 1 failure".into(),
        State::Failing => format!("failing, {failures} failures in a row"),
        State::Waiting => "waiting for its first certificate".into(),
        State::Scheduled | State::Off => renewal.map_or_else(
            || "not renewed".into(),
            |due| format!("renewal {}", when(due, now)),
        ),
    }
}

/// Returns the next action, unless the state says it.
fn next<S>(lineage: &Lineage<S>, now: i64) -> Option<String> {
    if State::of(lineage) == State::Scheduled || lineage.claim.is_some() {
        return None;
    }
    let what = match lineage.credential {
        Some(_) => "renewal",
        None => "order",
    };
    Some(format!("{what} {}", when(lineage.due?, now)))
}

fn when(due: i64, now: i64) -> String {
    let is_due = if due <= now { "due since" } else { "due at" };
    format!("{is_due} {}", rfc3339(due))
}

fn error<S>(lineage: &Lineage<S>) -> Option<String> {
    let LastError { at, text } = lineage.last_error.as_ref()?;
    Some(format!("{}: {}", rfc3339(*at), printable(text)))
}

fn until(claim: &Claim) -> String {
    rfc3339(claim.until_ms.div_euclid(1000))
}
