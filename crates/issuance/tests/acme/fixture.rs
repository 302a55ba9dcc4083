//! Fixture of the tests: a CA, an account, and the way to a certificate.

use std::time::Duration;

use rustls_pki_types::CertificateDer;
use sekisho_certs::Clock;
use sekisho_certs::credential::{Credential, Secret};
use sekisho_certs::host::HostPattern;
use sekisho_issuance::acme::{
    Account, AuthorizationStatus, Ca, CaSettings, CertificateKey, ChallengeType, Error, KeyKind,
    NewAccount, NewOrder, Order, Wanted,
};
use sekisho_testkit::services::{Pebble, PebbleOptions};

/// Pebble and a client of it.
pub(crate) struct Fixture {
    pub(crate) pebble: Pebble,
    pub(crate) ca: Ca,
}

impl Fixture {
    pub(crate) fn start() -> Self {
        Self::with(&PebbleOptions::default())
    }

    pub(crate) fn with(options: &PebbleOptions) -> Self {
        let pebble = Pebble::start(options);
        let ca = Ca::new(&settings(&pebble)).unwrap();
        Self { pebble, ca }
    }

    pub(crate) async fn account(&self) -> Account {
        self.ca.create_account(&agreed()).await.unwrap()
    }

    /// Answers all open challenges of an order and says so.
    pub(crate) async fn answer(&self, order: &mut Order, kind: ChallengeType) -> Result<(), Error> {
        for authorization in order.authorizations().await? {
            let Some(challenge) = authorization.challenge(kind) else {
                assert_ne!(authorization.status, AuthorizationStatus::Pending);
                continue;
            };
            let server = self.pebble.challenges();
            let name = authorization.name.as_str();
            let content = &challenge.key_authorization;
            match kind {
                ChallengeType::Http01 => server.add_http01(&challenge.token, content),
                ChallengeType::TlsAlpn01 => server.add_tls_alpn01(name, content),
                ChallengeType::Dns01 => {
                    let zone = name.trim_start_matches("*.");
                    server.add_txt(&format!("_acme-challenge.{zone}."), &challenge.txt);
                }
            }
            order.set_ready(name, kind).await?;
        }
        Ok(())
    }

    /// Gets a certificate by HTTP-01.
    pub(crate) async fn issue(&self, account: &Account, new: &NewOrder<'_>) -> Credential {
        let mut order = account.order(new).await.unwrap();
        self.answer(&mut order, ChallengeType::Http01)
            .await
            .unwrap();
        finish(&mut order, new.names, None).await.unwrap()
    }
}

/// Goes from answered challenges to the certificate.
pub(crate) async fn finish(
    order: &mut Order,
    names: &[HostPattern],
    chain: Option<&str>,
) -> Result<Credential, Error> {
    order.wait_ready(PATIENCE).await?;
    let key = CertificateKey::generate(KeyKind::P256).unwrap();
    order.finalize(&key, names).await?;
    fetch(order, names, &key.to_pkcs8(), chain).await
}

pub(crate) async fn fetch(
    order: &mut Order,
    names: &[HostPattern],
    key: &Secret,
    chain: Option<&str>,
) -> Result<Credential, Error> {
    let wanted = Wanted {
        key,
        names,
        chain,
        now: Clock::System.now(),
    };
    order.certificate(&wanted, PATIENCE).await
}

pub(crate) fn settings(pebble: &Pebble) -> CaSettings {
    CaSettings {
        name: "pebble".into(),
        directory: pebble.directory(),
        root: Some(pebble.root()),
        deadline: CaSettings::DEADLINE,
    }
}

pub(crate) fn agreed() -> NewAccount {
    NewAccount {
        contact: vec!["mailto:ops@example.com".into()],
        agree: true,
        external: None,
    }
}

pub(crate) fn names(names: &[&str]) -> Vec<HostPattern> {
    let parse = |name: &&str| HostPattern::parse(name).unwrap();
    names.iter().map(parse).collect()
}

pub(crate) fn order_of(names: &[HostPattern]) -> NewOrder<'_> {
    NewOrder {
        names,
        profile: None,
        replaces: None,
    }
}

pub(crate) fn leaf(credential: &Credential) -> &CertificateDer<'static> {
    &credential.chain()[0]
}

/// Far more than Pebble takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
