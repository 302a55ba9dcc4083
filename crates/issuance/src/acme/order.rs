//! Orders (RFC 8555, section 7.4).

mod issue;

use std::fmt;

use instant_acme::{
    AuthorizationState, AuthorizationStatus, ChallengeStatus, Identifier, OrderStatus,
};
use rustls_pki_types::CertificateDer;
use sekisho_certs::credential::Secret;
use sekisho_certs::host::HostPattern;

use super::account::Account;
use super::authorization::{Authorization, Challenge, ChallengeType};
use super::directory::Directory;
use super::error::{Error, Fault};
use super::exchange::Noted;
use super::problem::Problem;
use super::renewal_info;

/// Content of a new order.
#[derive(Clone, Copy, Debug)]
pub struct NewOrder<'a> {
    /// Names of the certificate; at least one.
    pub names: &'a [HostPattern],
    /// Name among [`super::Meta::profiles`]; the CA's choice if none.
    pub profile: Option<&'a str>,
    /// Certificate that this one follows (RFC 9773, section 5): CAs exempt such orders
    /// from limits. Passed over where the CA has no renewal information.
    pub replaces: Option<&'a CertificateDer<'a>>,
}

/// How the certificate should be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The key that it was requested with, PKCS#8.
    pub key: &'a Secret,
    /// Names that it must have.
    pub names: &'a [HostPattern],
    /// Common name of the root that its chain should lead to. Where the CA offers no
    /// such chain, its default one is taken and a line logged.
    pub chain: Option<&'a str>,
    /// Now, seconds since the Unix epoch.
    pub now: i64,
}

/// Order at a CA. Its steps are, in this order, each to be repeated after a failure or
/// in another process:
///
/// 1. [`Order::authorizations`], and for each pending one [`Order::set_ready`] once the
///    challenge is answered;
/// 2. [`Order::wait_ready`];
/// 3. [`Order::finalize`], with a key that is saved;
/// 4. [`Order::certificate`].
///
/// [`Order::status`] says where a resumed one stands: `pending` 1, `ready` 3,
/// `processing` and `valid` 4; `invalid` is the end.
pub struct Order {
    account: Account,
    inner: instant_acme::Order,
    noted: Noted,
    status: OrderStatus,
    /// Of the account's key (RFC 7638).
    thumbprint: String,
    /// For errors: its names or its URL.
    what: String,
}

impl Account {
    /// Begins an order. The caller saves [`Order::url`] before anything else.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn order(&self, new: &NewOrder<'_>) -> Result<Order, Error> {
        let what = listed(new.names);
        let begun = Order::place(self, new, what.clone()).await;
        begun.map_err(|fault| self.at(fault, format_args!("ordering {what}")))
    }

    /// Goes on with an order that any process began with this account.
    ///
    /// # Errors
    /// [`Error::is_lost`] tells whether the CA does not know it any more.
    pub async fn resume(&self, url: &str) -> Result<Order, Error> {
        let resumed = async {
            let session = self.session().await?;
            let inner = session.0.order(url.to_owned()).await?;
            Ok(Order::new(self, session, inner, url.to_owned()))
        };
        let resumed = resumed.await;
        resumed.map_err(|fault| self.at(fault, format_args!("resuming order {url}")))
    }
}

impl Order {
    async fn place(account: &Account, new: &NewOrder<'_>, what: String) -> Result<Self, Fault> {
        let identifier = |name: &HostPattern| Identifier::Dns(name.as_str().to_owned());
        let identifiers: Vec<_> = new.names.iter().map(identifier).collect();
        let directory = account.ca.endpoints().await?;
        let mut asked = instant_acme::NewOrder::new(&identifiers);
        if let Some(profile) = new.profile {
            offers(&directory, profile)?;
            asked = asked.profile(profile);
        }
        if let Some(replaced) = new.replaces
            && directory.renewal_info.is_some()
        {
            asked = asked.replaces(renewal_info::identifier(replaced)?);
        }
        let session = account.session().await?;
        let inner = session.0.new_order(&asked).await?;
        Ok(Self::new(account, session, inner, what))
    }

    fn new(
        account: &Account,
        (session, noted): (instant_acme::Account, Noted),
        mut inner: instant_acme::Order,
        what: String,
    ) -> Self {
        Self {
            thumbprint: session.key_thumbprint().to_owned(),
            account: account.clone(),
            status: inner.state().status,
            inner,
            noted,
            what,
        }
    }

    /// Returns the URL, by which any process resumes the order.
    #[must_use]
    pub fn url(&self) -> &str {
        self.inner.url()
    }

    /// Returns the status as the last answer had it.
    #[must_use]
    pub fn status(&self) -> OrderStatus {
        self.status
    }

    /// Returns what the CA wants for each name. Each authorization is read once.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn authorizations(&mut self) -> Result<Vec<Authorization>, Error> {
        let read = self.read_authorizations().await;
        read.map_err(|fault| self.at(fault, "reading the authorizations of"))
    }

    /// Tells the CA that it may validate. It may do so before this returns. Does
    /// nothing if validation has ended, so that a step may be repeated.
    ///
    /// # Errors
    /// [`Fault::Unsupported`] if the CA does not offer this challenge for the name;
    /// [`Fault::Invalid`] if the CA has validated before it answered, and failed.
    pub async fn set_ready(&mut self, name: &str, kind: ChallengeType) -> Result<(), Error> {
        let told = match self.tell_ready(name, kind).await {
            Err(refused @ Fault::Refused { .. }) => {
                let judged = self.judge(name, kind).await;
                judged.unwrap_or(Err(refused))
            }
            told => told,
        };
        let step = match &told {
            Err(Fault::Invalid(_)) => "validating",
            _ => "asking for validation of",
        };
        told.map_err(|fault| self.at(fault, step))
    }

    async fn read_authorizations(&mut self) -> Result<Vec<Authorization>, Fault> {
        let mut found = Vec::new();
        let mut authorizations = self.inner.authorizations();
        while let Some(handle) = authorizations.next().await {
            found.push(authorization(&*handle?, &self.thumbprint));
        }
        Ok(found)
    }

    async fn tell_ready(&mut self, name: &str, kind: ChallengeType) -> Result<(), Fault> {
        let mut authorizations = self.inner.authorizations();
        while let Some(handle) = authorizations.next().await {
            let mut handle = handle?;
            if handle.identifier().to_string() != name {
                continue;
            }
            if let Some(mut challenge) = handle.challenge(kind.wire()) {
                return match challenge.status {
                    ChallengeStatus::Pending => Ok(challenge.set_ready().await?),
                    _ => Ok(()),
                };
            }
        }
        let what = format!("challenge {} for {name}", kind.as_str());
        Err(Fault::Unsupported(what))
    }

    /// Reads again what has become of a challenge after a refused request; none if it
    /// says nothing of its own.
    ///
    /// instant-acme takes an `error` of a challenge for a refused request. RFC 8555,
    /// section 8.2, has it in challenges that are still tried, too: their status is
    /// `processing`. step-ca leaves a failed one `pending`.
    async fn judge(&mut self, name: &str, kind: ChallengeType) -> Option<Result<(), Fault>> {
        let mut authorizations = self.inner.authorizations();
        while let Some(Ok(mut handle)) = authorizations.next().await {
            if handle.identifier().to_string() != name {
                continue;
            }
            let state = handle.refresh().await.ok()?;
            let own = |one: &&instant_acme::Challenge| one.r#type == kind.wire();
            let challenge = state.challenges.iter().find(own);
            let error = challenge.and_then(|challenge| challenge.error.as_ref());
            let failed = || {
                let problem = error.map(Problem::from).unwrap_or_default();
                Some(Err(Fault::Invalid(problem.with_name(name).into())))
            };
            return match challenge.map(|challenge| challenge.status) {
                Some(ChallengeStatus::Invalid) => failed(),
                Some(ChallengeStatus::Pending) if error.is_some() => failed(),
                Some(ChallengeStatus::Processing | ChallengeStatus::Valid) => Some(Ok(())),
                // Another process may have asked before, by another challenge.
                _ => (state.status != AuthorizationStatus::Pending).then_some(Ok(())),
            };
        }
        None
    }

    fn at(&self, fault: Fault, step: &str) -> Error {
        let what = &self.what;
        self.account.at(fault, format_args!("{step} {what}"))
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order")
            .field("url", &self.url())
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

fn authorization(state: &AuthorizationState, thumbprint: &str) -> Authorization {
    // A decided authorization is not to be answered.
    let open = match state.status {
        AuthorizationStatus::Pending => &state.challenges[..],
        _ => &[],
    };
    let challenges = open.iter().filter_map(|challenge| {
        let kind = ChallengeType::of(&challenge.r#type)?;
        Challenge::new(kind, &challenge.token, thumbprint)
    });
    Authorization {
        name: state.identifier().to_string(),
        status: state.status,
        challenges: challenges.collect(),
    }
}

/// Tells whether the CA has this profile.
fn offers(directory: &Directory, profile: &str) -> Result<(), Fault> {
    let profiles = &directory.meta.profiles;
    if profiles.contains_key(profile) {
        return Ok(());
    }
    let names: Vec<_> = profiles.keys().map(String::as_str).collect();
    let why = format!("the CA has no {profile:?}, only {}", names.join(", "));
    let key = "profile";
    Err(Fault::Setting { key, why })
}

/// Names for an error: the first few.
fn listed(names: &[HostPattern]) -> String {
    let shown = names.iter().take(MAX_SHOWN).map(HostPattern::as_str);
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(MAX_SHOWN) {
        Some(more @ 1..) => format!("{shown} and {more} more"),
        _ => shown,
    }
}

const MAX_SHOWN: usize = 3;
