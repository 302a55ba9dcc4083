//! Steps of one order. What a step needs is saved before it.

use std::time::Duration;

use sekisho_certs::KeyType;
use sekisho_certs::credential::Credential;
use tokio::task::spawn_blocking;

use super::attempt::Attempt;
use super::failure::Failure;
use super::kind::OrderKind;
use super::under_way::Saved;
use crate::acme::{
    Account, CertificateKey, ChallengeType, Error, Fault, KeyKind, NewOrder, Order, OrderStatus,
    Retry, Wanted,
};
use crate::authorities::Authority;
use crate::quota::{Kind, Named};

impl Attempt<'_> {
    /// Gets the certificate by one order, the saved one or a new one, and removes what
    /// was shown to the CA.
    pub(super) async fn order(
        &mut self,
        authority: &Authority,
        account: &Account,
        solver: ChallengeType,
    ) -> Result<Credential, Failure> {
        let done = self.steps(authority, account, solver).await;
        if let Err(failure) = &done {
            self.count_failure(authority, failure).await;
            if failure.leaves_order() {
                // The CA may still validate, or another process has the order now.
                return done;
            }
            if self.has_order_at(authority)
                && let Some(saved) = self.state.order.take()
                && !failure.has_certificate()
            {
                self.issuer.give_back(&saved).await;
            }
        }
        self.clean_up().await;
        done
    }

    async fn steps(
        &mut self,
        authority: &Authority,
        account: &Account,
        solver: ChallengeType,
    ) -> Result<Credential, Failure> {
        let mut order = match self.resume(account).await? {
            Some(order) => order,
            None => self.begin(authority, account, solver).await?,
        };
        if order.status() == OrderStatus::Pending {
            self.prove(&mut order, solver).await?;
            order.wait_ready(VALIDATION).await?;
        }
        let key = self.key().await?;
        order.finalize(&key, &self.names).await?;
        let wanted = Wanted {
            key: &key.to_pkcs8(),
            names: &self.names,
            chain: authority.options.chain.as_deref(),
            now: self.now(),
        };
        Ok(order.certificate(&wanted, ISSUANCE).await?)
    }

    /// Goes on with the saved order of this CA; none if there is none, or it is over.
    async fn resume(&mut self, account: &Account) -> Result<Option<Order>, Failure> {
        let directory = account.ca().directory();
        let saved = self.state.order.as_ref();
        let Some(saved) = saved.filter(|saved| saved.directory == directory) else {
            return Ok(None);
        };
        match account.resume(&saved.url).await {
            Ok(order) if order.status() != OrderStatus::Invalid => return Ok(Some(order)),
            Ok(_) => {
                if let Some(failed) = self.state.order.take() {
                    self.issuer.give_back(&failed).await;
                }
            }
            Err(error) if error.is_lost() => self.abandon_order().await,
            Err(error) => return Err(error.into()),
        }
        Ok(None)
    }

    /// Begins an order and saves its URL before anything else.
    async fn begin(
        &mut self,
        authority: &Authority,
        account: &Account,
        solver: ChallengeType,
    ) -> Result<Order, Failure> {
        let mut kind = self.order_kind(authority);
        let order = loop {
            let charges = self.take_quota(authority, kind.kind).await?;
            match account.order(&self.new_order(authority, &kind)).await {
                Ok(order) => break order,
                // The certificate before it is of another account, or was replaced
                // already (RFC 9773, section 5): CAs differ in their words.
                Err(error) if kind.replaces.is_some() && is_refusal(&error) => {
                    tracing::info!(lineage = %self.lineage.name, %error, "ordering without replaces");
                    self.issuer.give_back_charges(authority, &charges).await;
                    kind.replaces = None;
                    if kind.kind == Kind::Replaces {
                        kind.kind = Kind::Renewal;
                    }
                }
                Err(error) => {
                    let certificate = authority
                        .options
                        .quotas
                        .certificate_charges(kind.kind, &self.names);
                    let unused = match may_have_begun(&error) {
                        true => &certificate,
                        false => &charges,
                    };
                    self.issuer.give_back_charges(authority, unused).await;
                    return Err(self.refused(authority, error, kind.kind).await);
                }
            }
        };
        // An order at another CA is not gone on with: this one takes its place.
        self.abandon_order().await;
        let (directory, url) = (authority.ca.directory(), order.url());
        let saved = Saved::new(directory, url, &self.names, solver, kind.kind);
        self.state.order = Some(saved);
        if let Err(failure) = self.save().await {
            // The next holder of the claim does not know of the order.
            if matches!(failure, Failure::ClaimLost) {
                self.abandon_order().await;
            }
            return Err(failure);
        }
        Ok(order)
    }

    fn new_order<'a>(&'a self, authority: &'a Authority, kind: &'a OrderKind) -> NewOrder<'a> {
        let profile = self.lineage.wishes.profile.as_deref();
        NewOrder {
            names: &self.names,
            profile: profile.or(authority.options.profile.as_deref()),
            replaces: kind.replaces.as_ref(),
        }
    }

    /// Closes the limit that a refusal names. A renewal that is refused as a new order
    /// counts as one from then on, else it would ask again each time.
    async fn refused(&mut self, authority: &Authority, error: Error, kind: Kind) -> Failure {
        let (ledger, ca) = (&self.issuer.ledger, authority.ca.name());
        let Retry::After(pause) = error.retry() else {
            return error.into();
        };
        let detail = error.problem().map_or("", |problem| &problem.detail);
        let closed = authority.options.quotas.closed_by(detail, &self.names);
        if !error.is_rate_limit() || closed.is_empty() {
            return error.into();
        }
        let is_of_set = matches!(Named::by(detail), Some(Named::Duplicates | Named::Failures));
        if kind != Kind::First && !is_of_set {
            self.state.counted_first = Some(authority.ca.directory().to_owned());
        }
        let pause = i64::try_from(pause.as_secs()).unwrap_or(i64::MAX);
        let until = self.issuer.clock.now().saturating_add(pause);
        match ledger.close(ca, &closed, until).await {
            Ok(()) => Failure::Closed {
                until,
                why: error.to_string(),
                is_limit: true,
            },
            Err(error) => error.into(),
        }
    }

    /// Returns the saved key, or makes one and saves it: a certificate without its key
    /// would be worthless.
    async fn key(&mut self) -> Result<CertificateKey, Failure> {
        let saved = self.state.order.as_ref();
        let saved = saved.and_then(|saved| saved.key.as_ref());
        if let Some(key) = saved.and_then(|key| CertificateKey::from_pkcs8(key).ok()) {
            return Ok(key);
        }
        let key = match self.kept_key().await? {
            Some(key) => key,
            None => self.generate().await.map_err(Failure::Setting)?,
        };
        if let Some(saved) = &mut self.state.order {
            saved.key = Some(key.to_pkcs8());
        }
        self.save().await?;
        Ok(key)
    }

    /// Returns the key of the certificate in use, where renewals keep it: that of a
    /// revoked one they don't.
    async fn kept_key(&self) -> Result<Option<CertificateKey>, Failure> {
        let kind = self.key_kind();
        let current = self.current.as_ref();
        let current = current.filter(|one| one.key_type == kind.key_type());
        let is_kept = self.issuer.reuse_key && !self.state.revoked;
        let (true, Some(current)) = (is_kept, current) else {
            return Ok(None);
        };
        let sealer = &self.issuer.sealer;
        let opened = sealer.open_credentials(vec![current.clone()]).await?;
        let key = opened.first();
        let key = key.map(|one| CertificateKey::from_pkcs8(one.key.secret()));
        Ok(key.and_then(Result::ok))
    }

    /// Makes a key, a slow one on a thread for such work. Those threads resolve the
    /// names of CAs too: keys leave some free.
    async fn generate(&self) -> Result<CertificateKey, String> {
        let kind = self.key_kind();
        if !kind.is_slow() {
            return CertificateKey::generate(kind);
        }
        let permit = self.issuer.slow_keys.acquire().await;
        let _permit = permit.expect("the semaphore is never closed");
        let made = spawn_blocking(move || CertificateKey::generate(kind)).await;
        made.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Returns the kind of the key: the configured one, unless the lineage wants
    /// another type.
    fn key_kind(&self) -> KeyKind {
        let configured = self.issuer.key;
        match self.lineage.wishes.key_type {
            Some(KeyType::Rsa) if configured.key_type() != KeyType::Rsa => KeyKind::Rsa2048,
            Some(KeyType::Ecdsa) if configured.key_type() != KeyType::Ecdsa => KeyKind::P256,
            _ => configured,
        }
    }
}

/// Tells whether the CA refuses the order for what it says.
fn is_refusal(error: &Error) -> bool {
    error.problem().is_some() && !error.is_rate_limit()
}

/// Tells whether the CA may have made the order, although there is no answer that says
/// so.
fn may_have_begun(error: &Error) -> bool {
    matches!(error.fault, Fault::Unreachable(_) | Fault::Malformed(_))
}

/// Wait for the CA's validation, and for its certificate. Where it takes longer, the
/// order is gone on with later.
const VALIDATION: Duration = Duration::from_mins(2);
const ISSUANCE: Duration = Duration::from_mins(2);
