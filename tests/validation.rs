//! A real CA validates challenges at a running server, which reads them from the
//! catalog that another server wrote them to.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use sekisho_certs::seal::{KeyRing, MasterKey};
use sekisho_certs::store::Precondition;
use sekisho_certs::{
    ChallengeKind, Challenges, Clock, HostPattern, KeyAuthorization, Lookup, LookupSettings,
    NeverObtain, Sealer,
};
use sekisho_issuance::acme::{
    self, Ca, CaSettings, CertificateKey, KeyKind, NewAccount, NewOrder, Order,
};
use sekisho_server::metrics::Metrics;
use sekisho_server::network::Networks;
use sekisho_server::site::{Allowed, Guard, OwnFiles, Site};
use sekisho_server::tickets::Ring;
use sekisho_server::{
    Addresses, CertificateWaits, Defaults, Inherited, Limits, LoopId, Parts, Publisher, Responder,
    Server, Settings, Shutdown,
};
use sekisho_stores::Mode;
use sekisho_stores::sqlite::Sqlite;
use sekisho_testkit::Scripted;
use sekisho_testkit::services::{Pebble, PebbleOptions};

#[tokio::test]
async fn pebble_validates_over_http_and_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (ordering, asked) = (opened(folder.path()).await, opened(folder.path()).await);
    let addresses = serve(Challenges::new(asked, Clock::System));
    let pebble = Pebble::start(&PebbleOptions {
        http_port: Some(addresses.http[0].port()),
        tls_port: Some(addresses.https[0].port()),
        ..PebbleOptions::default()
    });
    let ca = Ca::new(&CaSettings {
        name: "pebble".into(),
        directory: pebble.directory(),
        root: Some(pebble.root()),
        deadline: CaSettings::DEADLINE,
    })
    .unwrap();
    let new = NewAccount {
        contact: Vec::new(),
        agree: true,
        external: None,
    };
    let account = ca.create_account(&new).await.unwrap();
    // Names of their own: an authorization that is valid already offers one kind.
    for (kind, names) in [
        (ChallengeKind::Http01, ["a.example", "b.example"]),
        (ChallengeKind::TlsAlpn01, ["c.example", "d.example"]),
    ] {
        let names = names.map(|name| HostPattern::parse(name).unwrap());
        let new = NewOrder {
            names: &names,
            profile: None,
            replaces: None,
        };
        let mut order = account.order(&new).await.unwrap();
        answer(&mut order, kind, &ordering).await;
        order.wait_ready(PATIENCE).await.unwrap();
        let key = CertificateKey::generate(KeyKind::P256).unwrap();
        order.finalize(&key, &names).await.unwrap();
    }
}

/// Opens the catalog in this folder as one more server.
async fn opened(folder: &Path) -> Sealer {
    let catalog = Sqlite::open(&folder.join("catalog.db"), Mode::Create).unwrap();
    let ring = KeyRing::new(MasterKey::new(&[7; 32]));
    Sealer::create(Arc::new(catalog), ring).await.unwrap()
}

/// Writes the answers of an order to the catalog, and tells the CA.
async fn answer(order: &mut Order, kind: ChallengeKind, sealer: &Sealer) {
    for authorization in order.authorizations().await.unwrap() {
        let offered = match kind {
            ChallengeKind::Http01 => acme::ChallengeType::Http01,
            ChallengeKind::TlsAlpn01 => acme::ChallengeType::TlsAlpn01,
            ChallengeKind::Dns01 => acme::ChallengeType::Dns01,
        };
        let challenge = authorization.challenge(offered).expect("it is offered");
        let key = match kind {
            ChallengeKind::Http01 => &challenge.token,
            ChallengeKind::TlsAlpn01 => &authorization.name,
            ChallengeKind::Dns01 => unreachable!("no zone is served here"),
        };
        let answer = KeyAuthorization::new(&challenge.key_authorization);
        let expires = Clock::System.now() + 600;
        let put = Challenges::write(kind, key, &answer, expires, Precondition::Any);
        sealer.write(vec![put]).await.unwrap();
        let told = order.set_ready(&authorization.name, offered).await;
        told.unwrap();
    }
}

/// Serves no host, and these challenges.
fn serve(challenges: Challenges) -> Addresses {
    let guard = Arc::new(Guard::new(
        Allowed::parse(&[""; 0], Path::new("/")).unwrap(),
        OwnFiles::new(Vec::new()),
    ));
    let ring = Arc::new(Ring::random());
    let publisher = Publisher::new(ring, Site::not_found(), Arc::clone(&guard));
    let settings = LookupSettings {
        memory: 1 << 20,
        fresh: PATIENCE,
        absent: PATIENCE,
    };
    let parts = Parts {
        lookup: Lookup::new(
            Arc::new(Scripted::new([])),
            &settings,
            Arc::new(NeverObtain),
            move |host| publisher.publish(host),
        ),
        metrics: Arc::new(Metrics::default()),
        responder: Arc::new(Responder::new(1 << 20, guard)),
        challenges: Some(Arc::new(challenges)),
        access_log: None,
        loop_id: LoopId::new([7; 16]),
        load_roots: || Ok(RootCertStore::empty()),
        hook: None,
        clock: Clock::System,
        on_worker: || {},
    };
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let settings = Settings {
        https: vec![any_port],
        http: vec![any_port],
        plain: false,
        public_port: None,
        proxies: Networks::default(),
        trusted: Networks::default(),
        defaults: Defaults::default(),
        limits: LIMITS,
        name_servers: Vec::new(),
        upstreams: 16,
        bodies: 256 << 20,
    };
    let server = Server::build(settings, parts, Inherited::default()).unwrap();
    let addresses = server.addresses().clone();
    tokio::spawn(server.run(Shutdown::default()));
    addresses
}

/// Far more than Pebble takes.
const PATIENCE: Duration = Duration::from_secs(30);

const LIMITS: Limits = Limits {
    workers: 1,
    connections: 64,
    handshake: PATIENCE,
    head: PATIENCE,
    idle: PATIENCE,
    body: PATIENCE,
    drain: PATIENCE,
    host_look: PATIENCE,
    absent_per_prefix: 600,
    loads: 64,
    loads_per_prefix: 64,
    loads_waiting: 64,
    certificates: CertificateWaits {
        waiting: 1,
        time: PATIENCE,
    },
};
