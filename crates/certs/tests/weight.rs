//! The cache's bound is worth what its weights are: what it charges against
//! what memory really grows by.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use rustls::SignatureScheme;
use sekisho_certs::credential::Secret;
use sekisho_certs::{
    CredentialId, Found, HostName, HostPattern, HostRecord, KeyType, Lookup, LookupSettings,
    NeverObtain, OpenKey, Outcome, Published, StoredCredential,
};
use sekisho_testkit::{Key, Scripted, TestCa};
use tikv_jemalloc_ctl::{Access as _, AsName as _, epoch, stats};

/// The server's own: aws-lc allocates through it too.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// All in one test: the allocator's statistics are the process's.
#[tokio::test]
async fn weights_are_within_15_percent_of_what_memory_grows_by() {
    let measured = [
        records(Key::P256, KeyType::Ecdsa, 3000).await,
        records(Key::P384, KeyType::Ecdsa, 1000).await,
        records(Key::Ed25519, KeyType::Ed25519, 3000).await,
        records(Key::Rsa2048, KeyType::Rsa, 500).await,
        opened(Key::P256, KeyType::Ecdsa, 3000).await,
        opened(Key::P384, KeyType::Ecdsa, 3000).await,
        opened(Key::Rsa2048, KeyType::Rsa, 500).await,
        absences().await,
        uncertified(3000).await,
    ];
    for Measured {
        what,
        grown,
        charged,
    } in &measured
    {
        println!(
            "{what}: {grown:.0} bytes each, charged {charged:.0}, {:.3}",
            charged / grown
        );
    }
    for Measured {
        what,
        grown,
        charged,
    } in measured
    {
        let ratio = charged / grown;
        assert!(
            (0.85..=1.15).contains(&ratio),
            "{what}: charged {ratio:.2} of what memory grew by"
        );
    }
}

/// Bytes per entry.
struct Measured {
    what: String,
    grown: f64,
    charged: f64,
}

async fn records(key: Key, key_type: KeyType, hosts: usize) -> Measured {
    grown(key, key_type, hosts, OpenKey::unproved).await
}

/// Keys out of a seal, which are read in another way.
async fn opened(key: Key, key_type: KeyType, hosts: usize) -> Measured {
    let mut measured = grown(key, key_type, hosts, OpenKey::assumed).await;
    measured.what += ", opened";
    measured
}

async fn grown(key: Key, key_type: KeyType, hosts: usize, form: fn(Secret) -> OpenKey) -> Measured {
    let names: Vec<_> = (0..hosts)
        .map(|n| format!("host-{n}.example.test"))
        .collect();
    let lookup = lookup(shelf(&names, key, key_type, form));
    // Allocations that the library makes once, at the first use of a key type.
    found(&lookup, "warm.example.test").await;
    let before = (allocated(), lookup.stats().usage.bytes);
    for name in &names {
        found(&lookup, name).await;
    }
    assert_eq!(
        lookup.stats().usage.records,
        hosts + 1,
        "nothing was evicted"
    );
    measured(&lookup, before, format!("{key:?}"), hosts)
}

/// Records without a credential, as plain HTTP keeps them: each with a note, too.
async fn uncertified(hosts: usize) -> Measured {
    let text = |n: usize| format!("bare-{n}.example.test");
    let names: Vec<_> = (0..hosts)
        .map(|n| HostName::parse(&text(n)).unwrap())
        .collect();
    let bare = |name: &HostName| Found {
        record: HostRecord::new(HostPattern::parse(name.as_str()).unwrap()),
        credentials: Vec::new(),
        shadowed: false,
        fresh_for: None,
    };
    let lookup = lookup(Scripted::new(names.iter().map(bare)));
    let before = (allocated(), lookup.stats().usage.bytes);
    for name in &names {
        let outcome = lookup.read_any(name, |_| ()).stored().await;
        assert!(matches!(outcome, Outcome::Found(_)));
    }
    let usage = lookup.stats().usage;
    assert_eq!((usage.records, usage.notes), (hosts, hosts));
    measured(&lookup, before, "uncertified".into(), hosts)
}

/// The mean over a doubling: tables double, so that what an entry costs swings
/// with how full they are, and shards of a random hash double apart.
async fn absences() -> Measured {
    let lookup = lookup(Scripted::new([]));
    let before = (allocated(), lookup.stats().usage.bytes);
    let mut names = 0;
    let mut taken = Vec::new();
    for step in 0..=8 {
        let until = (20_000.0 * 2_f64.powf(f64::from(step) / 8.0)) as usize;
        for number in names..until {
            let name = HostName::parse(&format!("nobody-{number}.example.test")).unwrap();
            assert!(matches!(lookup.load(&name).await, Outcome::Absent(_)));
        }
        names = until;
        taken.push(measured(&lookup, before, "absence".into(), names));
    }
    let mean = |of: fn(&Measured) -> f64| taken.iter().map(of).sum::<f64>() / taken.len() as f64;
    Measured {
        what: "absence".into(),
        grown: mean(|one| one.grown),
        charged: mean(|one| one.charged),
    }
}

fn measured(lookup: &Lookup<()>, before: (usize, u64), what: String, entries: usize) -> Measured {
    let grown = (allocated() - before.0) as f64 / entries as f64;
    let charged = (lookup.stats().usage.bytes - before.1) as f64 / entries as f64;
    Measured {
        what,
        grown,
        charged,
    }
}

fn shelf(names: &[String], key: Key, key_type: KeyType, form: fn(Secret) -> OpenKey) -> Scripted {
    let ca = TestCa::new();
    // RSA keys take long to make: a few, each loaded as many credentials.
    let pairs = if key == Key::Rsa2048 { 4 } else { 64 };
    let pairs: Vec<_> = (0..pairs)
        .map(|_| ca.issue(&["some.host.example.test"], key))
        .collect();
    let all = names
        .iter()
        .map(String::as_str)
        .chain(["warm.example.test"]);
    let hosts = all.enumerate().map(|(number, name)| {
        let pair = &pairs[number % pairs.len()];
        let credential = StoredCredential {
            id: CredentialId::from_u64(number as u64),
            version: 1,
            key_type,
            chain: pair.chain.clone(),
            key: form(Secret::new(pair.key_der().secret_der().to_vec())),
            not_before: 0,
            not_after: i64::MAX,
            origin: None,
        };
        let record = HostRecord::new(HostPattern::parse(name).unwrap());
        Found {
            record,
            credentials: vec![credential],
            shadowed: false,
            fresh_for: None,
        }
    });
    Scripted::new(hosts)
}

fn lookup(store: Scripted) -> Arc<Lookup<()>> {
    let day = Duration::from_secs(86_400);
    let settings = LookupSettings {
        memory: 256 << 20,
        fresh: day,
        absent: day,
    };
    Lookup::new(Arc::new(store), &settings, Arc::new(NeverObtain), |_| {
        Ok(Published {
            value: (),
            weight: 0,
        })
    })
}

/// Loads and signs once, as a handshake does: keys grow at their first use.
async fn found(lookup: &Arc<Lookup<()>>, name: &str) {
    match lookup.load(&HostName::parse(name).unwrap()).await {
        Outcome::Found(served) => {
            let key = &served.host().credentials[0].certified().key;
            key.choose_scheme(ALL_SCHEMES)
                .expect("a scheme")
                .sign(b"message")
                .expect("a signature");
        }
        other => panic!("{other:?}"),
    }
}

const ALL_SCHEMES: &[SignatureScheme] = &[
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
];

/// Bytes in use. What a thread's cache holds is left out: jemalloc counts it as allocated,
/// and a new entry that is made of it would seem to take nothing. It is up to a seventh of
/// what 1,000 hosts take.
fn allocated() -> usize {
    epoch::advance().expect("jemalloc gives statistics");
    let all = stats::allocated::read().expect("jemalloc gives statistics");
    let cached: usize = CACHED.name().read().expect("jemalloc gives statistics");
    all - cached
}

/// Bytes in the caches of all threads, of all arenas.
const CACHED: &[u8] = b"stats.arenas.4096.tcache_bytes\0";
