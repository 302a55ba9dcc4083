//! Another ACME client beside the server, while hosts are moved to it: it writes its answers
//! below the hosts' roots, and the CA follows the redirect to HTTPS.

use std::time::Duration;

use sekisho_certs::HostPattern;
use sekisho_certs::credential::Credential;
use sekisho_issuance::acme::{
    Ca, CaSettings, CertificateKey, ChallengeType, Error, KeyKind, NewAccount, NewOrder, Wanted,
};
use tokio::runtime::Runtime;

use crate::first_access::Fixture;

#[test]
fn another_client_proves_names_by_files_below_the_root() {
    let fixture = Fixture::start("sqlite:hosts.db");
    fixture.configure(&fixture.acme("first_access = \"off\""));
    let sandbox = &fixture.sandbox;
    // A certificate that the CA does not trust.
    sandbox.import(&["moved.example"]);
    sandbox.page("moved.example", "page of moved.example");
    sandbox.ok(&["host", "set", "new.example"]);
    let server = sandbox.serve();
    let runtime = Runtime::new().expect("a runtime");
    let issued = runtime.block_on(certificate(&fixture, "moved.example"));
    let names = issued.expect("a certificate").names().to_vec();
    let names: Vec<_> = names.iter().map(HostPattern::as_str).collect();
    assert_eq!(names, ["moved.example"]);
    let page = server.fetch("moved.example").expect("it is served on");
    assert!(page.contains("page of moved.example"), "{page}");
    // Nothing is served to the CA for a host without any certificate.
    let refused = runtime.block_on(certificate(&fixture, "new.example"));
    let why = refused.expect_err("it has no certificate").to_string();
    assert!(why.contains("new.example"), "{why}");
    server.stop();
}

/// Gets a certificate as `certbot certonly --webroot` does.
async fn certificate(fixture: &Fixture, name: &str) -> Result<Credential, Error> {
    let ca = Ca::new(&CaSettings {
        name: "pebble".into(),
        directory: fixture.directory.clone(),
        root: Some(fixture.pebble.root()),
        deadline: CaSettings::DEADLINE,
    })?;
    let account = NewAccount {
        contact: Vec::new(),
        agree: true,
        external: None,
    };
    let account = ca.create_account(&account).await?;
    let names = [HostPattern::parse(name).expect("a name")];
    let new = NewOrder {
        names: &names,
        profile: None,
        replaces: None,
    };
    let mut order = account.order(&new).await?;
    for authorization in order.authorizations().await? {
        let challenge = authorization.challenge(ChallengeType::Http01);
        let challenge = challenge.expect("the CA offers it");
        let file = format!("www/{name}/.well-known/acme-challenge/{}", challenge.token);
        fixture.sandbox.write(&file, &challenge.key_authorization);
        order
            .set_ready(&authorization.name, ChallengeType::Http01)
            .await?;
    }
    order.wait_ready(PATIENCE).await?;
    let key = CertificateKey::generate(KeyKind::P256).expect("a key");
    order.finalize(&key, &names).await?;
    let wanted = Wanted {
        key: &key.to_pkcs8(),
        names: &names,
        chain: None,
        now: sekisho_certs::Clock::System.now(),
    };
    order.certificate(&wanted, PATIENCE).await
}

/// Far more than Pebble takes.
const PATIENCE: Duration = Duration::from_secs(30);
