//! What failed orders cost at a CA with limits, and when a mended host is served.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sekisho_certs::store::Write;
use sekisho_certs::{Clock, Fence, LineageName, Obtained, Sealer};
use sekisho_issuance::acme::ChallengeType;
use sekisho_issuance::issuer::Issuer;
use sekisho_issuance::ledger::Ledger;
use sekisho_issuance::quota::{Kind, Limit, Quotas};
use sekisho_testkit::services::{CaLimits, LimitedCa, PebbleOptions};

use crate::fixture::{Fixture, nobody, pattern, take_left, visit};

/// Fixture at one time, whose CA keeps to limits.
pub(crate) struct Limited {
    pub(crate) fixture: Fixture,
    pub(crate) ca: LimitedCa,
    pub(crate) quotas: Quotas,
}

impl Limited {
    pub(crate) async fn start(limits: CaLimits, quotas: Quotas) -> Self {
        let options = PebbleOptions {
            tls_port: Some(nobody().port()),
            ..PebbleOptions::default()
        };
        let fixture = Fixture::with(options).await;
        let time = Arc::clone(&fixture.time);
        let ca = fixture
            .pebble
            .limited(limits, move || time.load(Ordering::SeqCst));
        Self {
            fixture,
            ca,
            quotas,
        }
    }

    pub(crate) async fn issuer(&self) -> Arc<Issuer> {
        let mut settings = self.fixture.settings();
        settings.cas[0].ca.directory = self.ca.directory();
        settings.cas[0].quotas = self.quotas;
        settings.solvers = vec![ChallengeType::Http01, ChallengeType::TlsAlpn01];
        self.fixture.built(settings, self.clock()).await
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock::Manual(Arc::clone(&self.fixture.time))
    }

    pub(crate) fn advance(&self, seconds: i64) {
        self.fixture
            .time
            .fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    async fn advance_until_due(&self, name: &str) {
        let due = self.fixture.lineage(name).await.unwrap().due.unwrap();
        self.advance(due - self.clock().now());
    }

    /// Lets names lead to an address where nobody listens, or to the server.
    fn lead(&self, names: &[&str], is_right: bool) {
        let [wrong, right] = [Ipv4Addr::new(127, 9, 9, 9), Ipv4Addr::LOCALHOST];
        for name in names {
            let address = if is_right { right } else { wrong };
            let challenges = self.fixture.pebble.challenges();
            challenges.set_address(&format!("{name}."), address);
        }
    }

    pub(crate) async fn is_served(&self, issuer: &Arc<Issuer>, name: &str) -> bool {
        let record = self.fixture.record(name).await.unwrap();
        let obtained = visit(issuer, name, Some(&record)).await;
        matches!(obtained, Obtained::Stored)
    }

    /// Returns how many certificates for exactly this name the ledger has left.
    async fn duplicates_left(&self, name: &str) -> u32 {
        let ledger = Ledger::new(self.fixture.sealer.clone(), self.clock());
        let charges = self
            .quotas
            .certificate_charges(Kind::Renewal, &[pattern(name)]);
        take_left(&ledger, "pebble", &charges[0], 99).await
    }

    async fn error(&self, name: &str) -> String {
        let lineage = self.fixture.lineage(name).await.unwrap();
        lineage.last_error.unwrap().text
    }
}

pub(crate) fn lineage(name: &str) -> LineageName {
    LineageName::from(&pattern(name))
}

#[tokio::test]
async fn a_host_with_wrong_dns_for_15_minutes_is_served_soon_after_it_is_mended() {
    let limited = Limited::start(CaLimits::letsencrypt(), Quotas::letsencrypt()).await;
    let names = ["a.one.example", "b.two.example"];
    for name in names {
        limited.fixture.host(name).await;
    }
    limited.lead(&names, false);
    let issuer = limited.issuer().await;
    for _ in 0..2 * 15 {
        for name in names {
            assert!(!limited.is_served(&issuer, name).await);
        }
        limited.advance(30);
    }
    limited.lead(&names, true);
    // By hand at once, else by the schedule: the CA gives one failed validation back in
    // twelve minutes.
    let by_hand = issuer.issue(&lineage(names[0])).await;
    assert!(by_hand.is_ok(), "{by_hand:?}");
    let mut seconds = 0;
    while !limited.is_served(&issuer, names[1]).await {
        limited.advance(30);
        seconds += 30;
        assert!(seconds <= 14 * 60, "{}", limited.error(names[1]).await);
    }
    assert_eq!(
        limited.ca.refused(),
        [""; 0],
        "the CA had to refuse nothing"
    );
}

#[tokio::test]
async fn what_an_order_takes_for_its_certificate_is_given_back_without_one() {
    let quotas = Quotas {
        duplicates: Limit::new(2, 7 * 24 * 3600),
        domains: Limit::new(2, 7 * 24 * 3600),
        ..Quotas::default()
    };
    let limits = CaLimits {
        failures: (200, 3600),
        ..CaLimits::letsencrypt()
    };
    let limited = Limited::start(limits, quotas).await;
    let name = "a.example";
    limited.fixture.host(name).await;
    limited.lead(&[name], false);
    let issuer = limited.issuer().await;
    let first = limited.is_served(&issuer, name).await;
    assert!(!first, "two orders have failed");
    for _ in 0..2 {
        let failed = issuer.issue(&lineage(name)).await.unwrap_err();
        assert!(failed.why.contains("Failed to connect"), "{failed:?}");
    }
    limited.lead(&[name], true);
    issuer.issue(&lineage(name)).await.unwrap();
    // Of seven orders one has a certificate.
    assert_eq!(limited.duplicates_left(name).await, 1);
}

#[tokio::test]
async fn an_order_whose_claim_is_lost_before_it_is_saved_gives_back_what_it_took() {
    let fixture = Fixture::start().await;
    let quotas = Quotas {
        duplicates: Limit::new(2, 7 * 24 * 3600),
        ..Quotas::default()
    };
    let name = fixture.issued(&fixture.issuer().await, "a.example").await;
    let (sealer, removed) = (fixture.sealer.clone(), name.clone());
    let proxy = fixture.pebble.proxy(move |path, status| {
        if path.contains("order-plz") && status.is_some() {
            remove_lineage(sealer.clone(), removed.clone());
        }
        true
    });
    let through = format!("https://127.0.0.1:{}/dir", proxy.port());
    let issuer = fixture
        .issuer_with(|settings| {
            settings.cas[0].ca.directory = through;
            settings.cas[0].quotas = quotas;
        })
        .await;
    let failed = issuer.issue(&name).await.unwrap_err();
    assert_eq!(fixture.orders(), 2, "{failed:?}");
    assert!(fixture.lineage("a.example").await.is_none(), "{failed:?}");
    let ledger = Ledger::new(fixture.sealer.clone(), Clock::System);
    let charges = quotas.certificate_charges(Kind::Renewal, &[pattern("a.example")]);
    let left = take_left(&ledger, "pebble", &charges[0], 99).await;
    assert_eq!(left, 2, "{failed:?}");
}

/// Removes a lineage, as a command does. Blocks a thread that runs a runtime.
fn remove_lineage(sealer: Sealer, name: LineageName) {
    let removing = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let remove = Write::RemoveLineage(name, Fence::Any);
        let removed = runtime.unwrap().block_on(sealer.write(vec![remove]));
        removed.unwrap();
    });
    removing.join().unwrap();
}

#[tokio::test]
async fn a_refusal_of_the_ca_gives_back_what_was_taken() {
    let quotas = Quotas {
        orders: Limit::new(300, 3600),
        duplicates: Limit::new(5, 7 * 24 * 3600),
        ..Quotas::default()
    };
    let limits = CaLimits {
        orders: (1, 3600),
        ..CaLimits::letsencrypt()
    };
    let limited = Limited::start(limits, quotas).await;
    let issuer = limited.issuer().await;
    for name in ["a.one.example", "b.two.example"] {
        limited.fixture.host(name).await;
    }
    assert!(limited.is_served(&issuer, "a.one.example").await);
    assert!(!limited.is_served(&issuer, "b.two.example").await);
    let why = limited.error("b.two.example").await;
    assert!(why.contains("too many new orders"), "{why}");
    assert_eq!(limited.duplicates_left("a.one.example").await, 4);
    assert_eq!(limited.duplicates_left("b.two.example").await, 5);
}

#[tokio::test]
async fn the_schedule_leaves_a_failed_validation_and_the_cause_stays_visible() {
    let quotas = Quotas {
        failures: Limit::new(3, 3600),
        ..Quotas::default()
    };
    let limited = Limited::start(CaLimits::letsencrypt(), quotas).await;
    let name = "a.example";
    limited.fixture.host(name).await;
    limited.lead(&[name], false);
    let (issuer, begun) = (limited.issuer().await, limited.clock().now());
    assert!(!limited.is_served(&issuer, name).await);
    assert_eq!(
        limited.ca.asked(),
        2,
        "the first attempt tries each challenge"
    );
    for _ in 0..3 {
        limited.advance_until_due(name).await;
        // The CA gives one validation back in twenty minutes.
        if limited.clock().now() > begun + 19 * 60 {
            break;
        }
        assert!(!limited.is_served(&issuer, name).await);
        let why = limited.error(name).await;
        let parts: Vec<_> = why.split("; the failure before: ").collect();
        assert!(parts[0].contains("the limits of pebble"), "{why}");
        let is_told = parts[1].contains("Failed to connect");
        assert!(is_told && parts.len() == 2, "{why}");
    }
    assert_eq!(limited.ca.asked(), 2, "one failed validation is left");
    limited.lead(&[name], true);
    issuer.issue(&lineage(name)).await.unwrap();
}

#[tokio::test]
async fn later_attempts_of_the_schedule_try_one_challenge_each() {
    let limited = Limited::start(CaLimits::letsencrypt(), Quotas::default()).await;
    let name = "a.example";
    limited.fixture.host(name).await;
    limited.lead(&[name], false);
    let issuer = limited.issuer().await;
    for asked in [2, 3, 4] {
        assert!(!limited.is_served(&issuer, name).await);
        assert_eq!(limited.ca.asked(), asked);
        limited.advance_until_due(name).await;
    }
    // It is the turn of either challenge: nobody answers TLS-ALPN-01.
    limited.lead(&[name], true);
    let mut attempts = 0;
    while !limited.is_served(&issuer, name).await {
        limited.advance_until_due(name).await;
        attempts += 1;
        assert!(attempts < 2, "{}", limited.error(name).await);
    }
}

#[tokio::test]
async fn a_burst_of_orders_asks_for_few_nonces() {
    let limited = Limited::start(CaLimits::letsencrypt(), Quotas::default()).await;
    let issuer = limited.issuer().await;
    let names: Vec<_> = (0..32).map(|n| format!("n{n}.d{n}.example")).collect();
    for name in &names {
        limited.fixture.host(name).await;
    }
    let time = tokio::spawn(follow(Arc::clone(&limited.fixture.time)));
    let visits = names.iter().map(|name| limited.is_served(&issuer, name));
    let served = futures_util::future::join_all(visits).await;
    assert!(served.iter().all(|served| *served), "{served:?}");
    assert_eq!(limited.ca.refused(), [""; 0]);
    time.abort();
}

/// Moves a time as the clock does.
async fn follow(time: Arc<std::sync::atomic::AtomicI64>) {
    loop {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        time.store(Clock::System.now_ms(), Ordering::SeqCst);
    }
}
