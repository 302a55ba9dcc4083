//! The sentences on lists.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::fixture::{Fixture, pattern, put_host, record, record_of};
use sekisho_certs::credential::{CredentialId, KeyType};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::lineage::{Fence, Lineage};
use sekisho_certs::origin::Origin;
use sekisho_certs::record::{HostRecord, Site, Tenant};
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{CredentialFilter, HostFilter, Precondition, Write};

pub async fn lists_are_in_byte_order_and_paged(fixture: Fixture) {
    // '*' and '-' stand before letters, '.' before digits, '_' behind them.
    let names = [
        "*.b.example",
        "a-b.example",
        "a.example",
        "a0.example",
        "a_.example",
        "b.example",
    ];
    let mut ids = BTreeSet::new();
    for name in names.iter().rev() {
        ids.insert(fixture.put(name).await);
    }
    let all = HostFilter::default();
    assert_eq!(hosts(&fixture, &all, 4).await, names.map(pattern));
    let listed = credentials(&fixture, &CredentialFilter::All, 4).await;
    assert_eq!(listed, ids.into_iter().collect::<Vec<_>>());
    let none = fixture.catalog.list_hosts(&all, None, 0).await.unwrap();
    assert!(none.hosts.is_empty() && none.next.is_none());
}

/// Lists the hosts that a filter admits, page by page.
async fn hosts(fixture: &Fixture, filter: &HostFilter, limit: usize) -> Vec<HostPattern> {
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = fixture.catalog.list_hosts(filter, after.as_ref(), limit);
        let page = page.await.unwrap();
        assert!(page.hosts.len() <= limit);
        listed.extend(page.hosts.into_iter().map(|record| record.pattern));
        after = page.next;
        if after.is_none() {
            return listed;
        }
    }
}

/// Lists the credentials that a filter admits, page by page.
async fn credentials(
    fixture: &Fixture,
    filter: &CredentialFilter,
    limit: usize,
) -> Vec<CredentialId> {
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = fixture.catalog.list_credentials(filter, after, limit);
        let page = page.await.unwrap();
        assert!(page.credentials.len() <= limit);
        listed.extend(page.credentials.into_iter().map(|one| one.id));
        after = page.next;
        if after.is_none() {
            return listed;
        }
    }
}

/// Each condition, and all of them together in each combination.
pub async fn hosts_are_filtered_each_way(fixture: Fixture) {
    let credential = fixture.credential();
    let id = credential.id;
    let mut writes = vec![Write::PutCredential(credential, Precondition::Absent)];
    writes.extend((0..32).map(|bits| put_host(meeting(bits, id))));
    let batch = Batch::unchecked(writes);
    fixture.catalog.write(batch).await.unwrap();
    for wanted in 0..32 {
        let listed = hosts(&fixture, &filter(wanted), 3).await;
        let admitted = (0..32).filter(|bits| bits & wanted == wanted);
        let admitted: Vec<_> = admitted.map(|bits| meeting(bits, id).pattern).collect();
        assert_eq!(listed, admitted, "{wanted:05b}");
    }
}

/// Makes a host that meets the conditions of these bits and no others.
fn meeting(bits: usize, credential: CredentialId) -> HostRecord {
    let is_set = |bit: usize| bits & bit != 0;
    let domain = if is_set(1) { "shop.example" } else { "example" };
    let mut host = record(&format!("h{bits:02}.{domain}"), &[]);
    if !is_set(2) {
        host.references.set(KeyType::Ecdsa, Some(credential));
    }
    if is_set(4) {
        host.tenant = Tenant::parse("anna").unwrap();
    }
    host.origin = is_set(8).then(|| Origin::new("/srv"));
    host.suspended = is_set(16).then(|| Site {
        format: 1,
        json: r#"{"status":503}"#.into(),
    });
    host
}

/// Makes the filter of the conditions of these bits.
fn filter(bits: usize) -> HostFilter {
    let is_set = |bit: usize| bits & bit != 0;
    HostFilter {
        under: is_set(1).then(|| HostName::parse("shop.example").unwrap()),
        without_certificate: is_set(2),
        tenant: is_set(4).then(|| Tenant::parse("anna").unwrap()),
        origin: is_set(8).then(|| "/srv".into()),
        suspended: is_set(16),
    }
}

/// While others write: what meets the filter throughout is listed once.
pub async fn a_filtered_list_is_paged_to_its_end(fixture: Fixture) {
    let name = |number: usize| format!("h{number:02}.shop.example");
    let owner = |number: usize| match number % 2 {
        0 => "anna",
        _ => "bert",
    };
    let writes = (0..30).map(|number| put_host(record_of(&name(number), owner(number))));
    let batch = Batch::unchecked(writes.collect());
    fixture.catalog.write(batch).await.unwrap();
    let evens = (0..30).step_by(2).map(|number| pattern(&name(number)));
    let evens: Vec<_> = evens.collect();
    for bits in [4, 1 | 4] {
        let filter = filter(bits);
        for limit in [1, 2, 1000] {
            let (mut listed, mut after) = (Vec::new(), None);
            loop {
                let page = fixture.catalog.list_hosts(&filter, after.as_ref(), limit);
                let page = page.await.unwrap();
                listed.extend(page.hosts.into_iter().map(|one| one.pattern));
                // Hosts of another owner come and go.
                let other = 2 * (listed.len() % 15) + 1;
                let write = match listed.len() % 2 {
                    0 => Write::RemoveHost(pattern(&name(other)), Precondition::Any),
                    _ => put_host(record_of(&name(other), "bert")),
                };
                let batch = Batch::unchecked(vec![write]);
                fixture.catalog.write(batch).await.unwrap();
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(listed, evens, "{bits} {limit}");
        }
    }
}

pub async fn names_below_a_domain_are_listed(fixture: Fixture) {
    let below = [
        "shop.example",
        "*.shop.example",
        "a-b.shop.example",
        "sub.shop.example",
        "*.sub.shop.example",
    ];
    let beside = [
        "example",
        "*.example",
        "shop-x.example",
        "xshop.example",
        "shop0.example",
        "shop.example.net",
        "shop",
    ];
    let writes = below.iter().chain(&beside).rev();
    let writes = writes.map(|name| put_host(record(name, &[])));
    let batch = Batch::unchecked(writes.collect());
    fixture.catalog.write(batch).await.unwrap();
    for limit in [1, 2, 1000] {
        assert_eq!(hosts(&fixture, &filter(1), limit).await, below.map(pattern));
    }
}

pub async fn tenants_are_listed_once_in_order(fixture: Fixture) {
    let owners = ["", "Zoe", "anna", "bert", "Über"];
    let writes = (0..20).map(|number: usize| {
        let owner = owners[number % owners.len()];
        put_host(record_of(&format!("h{number}.example"), owner))
    });
    let batch = Batch::unchecked(writes.collect());
    fixture.catalog.write(batch).await.unwrap();
    let mut listed: Vec<Tenant> = Vec::new();
    while let page = fixture.catalog.tenants(listed.last(), 2).await.unwrap()
        && !page.is_empty()
    {
        assert!(page.len() <= 2);
        listed.extend(page);
    }
    let listed: Vec<_> = listed.iter().map(Tenant::as_str).collect();
    assert_eq!(listed, owners);
}

pub async fn credentials_are_listed_by_their_end(fixture: Fixture) {
    // Credentials that are made in an empty catalog have version 0, and no origin.
    fixture.put("a.example").await;
    let now = fixture.now();
    let made = [50, 10, 30, 30, 40].map(|end| {
        let mut credential = fixture.credential();
        credential.not_after = now + end;
        credential.origin = (end == 30).then(|| Origin::new("/srv"));
        credential
    });
    let ids = made.each_ref().map(|one| one.id);
    let writes = made.map(|one| Write::PutCredential(one, Precondition::Absent));
    let batch = Batch::unchecked(writes.to_vec());
    fixture.catalog.write(batch).await.unwrap();
    let ends = CredentialFilter::Ends {
        from: now + 10,
        until: now + 50,
    };
    let brought = CredentialFilter::Origin("/srv".into());
    for limit in [1, 2, 1000] {
        let listed = credentials(&fixture, &ends, limit).await;
        assert_eq!(listed, [ids[1], ids[2], ids[3], ids[4]]);
        let listed = credentials(&fixture, &brought, limit).await;
        assert_eq!(listed, [ids[2], ids[3]]);
    }
    let none = CredentialFilter::Ends {
        from: now + 60,
        until: now + 60,
    };
    assert!(credentials(&fixture, &none, 9).await.is_empty());
}

/// Half of the names come and go while the list is paged; the other half
/// stays and is listed once each, in order.
pub async fn what_stood_throughout_is_listed_once(fixture: Fixture) {
    let name = |number: usize| format!("h{number:03}.example");
    let writes = (0..60).map(|number| put_host(record(&name(number), &[])));
    fixture
        .catalog
        .write(Batch::unchecked(writes.collect()))
        .await
        .unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (catalog, done) = (Arc::clone(&fixture.catalog), Arc::clone(&done));
        tokio::spawn(async move {
            let mut round = 0_usize;
            while !done.load(Ordering::SeqCst) {
                let number = ((7 * round) % 60) | 1;
                let write = match round % 3 {
                    0 => Write::RemoveHost(pattern(&name(number)), Precondition::Any),
                    1 => put_host(record_of(&name(number), "again")),
                    _ => put_host(record_of(&name(number - 1), &round.to_string())),
                };
                catalog.write(Batch::unchecked(vec![write])).await.unwrap();
                round += 1;
                tokio::task::yield_now().await;
            }
        })
    };
    for _ in 0..10 {
        let listed = hosts(&fixture, &HostFilter::default(), 7).await;
        assert!(listed.is_sorted_by(|one, next| one < next));
        for number in (0..60).step_by(2) {
            assert!(listed.contains(&pattern(&name(number))));
        }
    }
    done.store(true, Ordering::SeqCst);
    writer.await.unwrap();
}

pub async fn hosts_are_found_by_their_credential(fixture: Fixture) {
    for key_type in KeyType::ALL {
        let credential = fixture.credential_of(key_type);
        let id = credential.id;
        let of = |number| format!("{}-{number}.example", key_type.as_str());
        let mut writes = vec![Write::PutCredential(credential, Precondition::Absent)];
        writes.extend((0..5).map(|number| put_host(record(&of(number), &[(key_type, id)]))));
        writes.push(put_host(record("other.example", &[])));
        fixture
            .catalog
            .write(Batch::unchecked(writes))
            .await
            .unwrap();
        let mut listed: Vec<HostPattern> = Vec::new();
        while let page = fixture
            .catalog
            .hosts_of(id, listed.last(), 2)
            .await
            .unwrap()
            && !page.is_empty()
        {
            assert!(page.len() <= 2);
            listed.extend(page);
        }
        let expected: Vec<_> = (0..5).map(|number| pattern(&of(number))).collect();
        assert_eq!(listed, expected);
    }
    let nobody = CredentialId::from_u64(u64::MAX);
    assert!(
        fixture
            .catalog
            .hosts_of(nobody, None, 9)
            .await
            .unwrap()
            .is_empty()
    );
}

pub async fn many_are_read_by_their_keys(fixture: Fixture) {
    let mut ids = Vec::new();
    for name in ["a.example", "b.example"] {
        ids.push(fixture.put(name).await);
    }
    let asked = ["b.example", "absent.example", "a.example"].map(pattern);
    let records = fixture.catalog.hosts(&asked).await.unwrap();
    let found: BTreeSet<_> = records.into_iter().map(|record| record.pattern).collect();
    assert_eq!(
        found,
        BTreeSet::from(["a.example", "b.example"].map(pattern))
    );
    let asked = [ids[1], CredentialId::from_u64(u64::MAX), ids[0]];
    let credentials = fixture.catalog.credentials(&asked).await.unwrap();
    let found: BTreeSet<_> = credentials.into_iter().map(|one| one.id).collect();
    assert_eq!(found, ids.into_iter().collect());
    assert!(fixture.catalog.hosts(&[]).await.unwrap().is_empty());
    assert!(fixture.catalog.credentials(&[]).await.unwrap().is_empty());
}

pub async fn lineages_are_counted(fixture: Fixture) {
    let write = async |writes| {
        let batch = Batch::unchecked(writes);
        fixture.catalog.write(batch).await.unwrap();
        fixture.catalog.count_lineages().await.unwrap()
    };
    assert_eq!(fixture.catalog.count_lineages().await.unwrap(), 0);
    let [mut a, mut b, mut c] = ["a.example", "b.example", "c.example"]
        .map(|name| Lineage::new(Tenant::default(), [pattern(name)]).unwrap());
    a.due = Some(fixture.now());
    b.due = Some(fixture.now() + 3600);
    c.due = Some(fixture.now() - 1);
    let name = a.name.clone();
    let put = |lineage| Write::PutLineage(lineage, Fence::Any);
    assert_eq!(write(vec![put(a), put(b.clone()), put(c)]).await, 3);
    for (most, expected) in [(9, 2), (2, 2), (1, 1), (0, 0)] {
        assert_eq!(fixture.catalog.count_due(most).await.unwrap(), expected);
    }
    // Replaced.
    assert_eq!(write(vec![put(b)]).await, 3);
    let remove = Write::RemoveLineage(name, Fence::Any);
    assert_eq!(write(vec![remove]).await, 2);
}
