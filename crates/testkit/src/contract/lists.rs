//! The sentences on lists.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::fixture::{Fixture, pattern, put_host, record, record_of};
use sekisho_certs::credential::{CredentialId, KeyType};
use sekisho_certs::host::HostPattern;
use sekisho_certs::lineage::{Fence, Lineage};
use sekisho_certs::record::Tenant;
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
