//! The sentences on the log.

use std::sync::Arc;
use std::time::Duration;

use super::fixture::{Fixture, host_with, pattern, put_host, record, record_of, sealed};
use sekisho_certs::credential::KeyType;
use sekisho_certs::host::HostName;
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{
    Catalog, Change, LogPosition, Precondition, ReadAt, Subject, What, Write,
};

pub async fn numbers_grow_by_one(fixture: Fixture) {
    let before = fixture.number().await;
    let names = ["a.example", "b.example", "c.example"];
    let writes = names.map(|name| put_host(record(name, &[])));
    let last = fixture
        .catalog
        .write(Batch::unchecked(writes.to_vec()))
        .await
        .unwrap();
    assert_eq!(last, before + 3);
    let remove = Write::RemoveHost(pattern("b.example"), Precondition::Any);
    let last = fixture
        .catalog
        .write(Batch::unchecked(vec![remove]))
        .await
        .unwrap();
    assert_eq!(last, before + 4);
    let page = fixture.catalog.changes(before, 99).await.unwrap();
    let expected = [
        (0, What::Put),
        (1, What::Put),
        (2, What::Put),
        (1, What::Removed),
    ];
    let expected = expected.into_iter().zip(before + 1..);
    let expected = expected.map(|((name, what), number)| Change {
        number,
        subject: Subject::Host(pattern(names[name])),
        what,
    });
    assert_eq!(page.changes, expected.collect::<Vec<_>>());
    assert_eq!((page.last, page.gap), (last, false));
    // A record's version is the number of its change.
    assert_eq!(fixture.host("c.example").await.unwrap().version, before + 3);
    let page = fixture.catalog.changes(before + 1, 2).await.unwrap();
    let numbers: Vec<_> = page.changes.iter().map(|change| change.number).collect();
    assert_eq!(numbers, [before + 2, before + 3]);
    assert_eq!(page.last, last);
    let page = fixture.catalog.changes(last, 99).await.unwrap();
    assert!(page.changes.is_empty() && !page.gap);
}

/// Each transaction draws a mark, and a page says which marks stand at both of
/// its ends.
pub async fn a_mark_tells_histories_apart(fixture: Fixture) {
    let catalog = &fixture.catalog;
    let start = catalog.head().await.unwrap();
    let mut positions = vec![start];
    for host in ["a.example", "b.example"] {
        let twice = [put_host(record(host, &[])), put_host(record(host, &[]))];
        catalog
            .write(Batch::unchecked(twice.to_vec()))
            .await
            .unwrap();
        positions.push(catalog.head().await.unwrap());
    }
    assert_ne!(positions[1].mark, positions[2].mark);
    for (at, reached) in [(0, 2), (1, 2), (2, 2)] {
        let at = positions[at];
        let page = catalog.changes(at.number, 99).await.unwrap();
        assert_eq!(page.continued(at), Some(positions[reached]));
    }
    let page = catalog.changes(positions[1].number, 99).await.unwrap();
    let other = LogPosition {
        mark: positions[1].mark ^ 1,
        ..positions[1]
    };
    assert_eq!(page.continued(other), None, "another history");
    // Within a transaction too.
    let page = catalog.changes(start.number, 1).await.unwrap();
    let within = page.continued(start).unwrap();
    assert_eq!(within.mark, positions[1].mark);
    let page = catalog.changes(within.number, 1).await.unwrap();
    assert_eq!(page.continued(within), Some(positions[1]));
}

/// Several write at once while one reads along: it sees each number once, in
/// order, and none below one that it has seen.
pub async fn nobody_sees_a_smaller_number_later(fixture: Fixture) {
    let catalog = Arc::clone(&fixture.catalog);
    let mut after = fixture.number().await;
    let writers = ["a.example", "b.example", "c.example"].map(|name| {
        let catalog = Arc::clone(&catalog);
        tokio::spawn(async move {
            for round in 0..20 {
                let host = record_of(name, &round.to_string());
                catalog
                    .write(Batch::unchecked(vec![
                        put_host(host.clone()),
                        put_host(host),
                    ]))
                    .await
                    .unwrap();
            }
        })
    });
    let end = after + 3 * 20 * 2;
    while after < end {
        let page = catalog.changes(after, 7).await.unwrap();
        assert!(!page.gap);
        for change in page.changes {
            assert_eq!(change.number, after + 1);
            after = change.number;
        }
        assert!(page.last >= after);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(fixture.number().await, end);
}

/// A server that was cut off for a bulk run reads all that it wrote, page by page.
pub async fn a_bulk_run_is_caught_up(catalog: &dyn Catalog, batches: u64) {
    let mut at = catalog.head().await.unwrap();
    let end = at.number + batches * 5000;
    for _ in 0..batches {
        // The writes are of one host: only the log grows.
        let batch = vec![put_host(record("a.example", &[])); 5000];
        catalog.write(Batch::unchecked(batch)).await.unwrap();
    }
    while at.number < end {
        let page = catalog.changes(at.number, 1000).await.unwrap();
        assert_eq!((page.gap, page.changes.len()), (false, 1000));
        at = page.continued(at).unwrap();
    }
    assert_eq!(at, catalog.head().await.unwrap());
}

/// Repeats the test with catalogs of their own on one empty store, as servers
/// have: two write, and one reads along.
pub async fn writers_take_turns(reader: &dyn Catalog, writers: [Arc<dyn Catalog>; 2]) {
    const ROUNDS: u64 = 40;
    let writers = [1_u64, 2]
        .into_iter()
        .zip(writers)
        .map(|(writer, catalog)| {
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let host = format!("w{writer}-{round}.example");
                    let batch = host_with(&host, writer << 32 | round, sealed);
                    catalog.write(Batch::unchecked(batch)).await.unwrap();
                }
            })
        });
    let writers: Vec<_> = writers.collect();
    let mut seen = 0;
    while seen < 2 * ROUNDS {
        let position = reader.head().await.unwrap();
        let page = reader.changes(seen, 1000).await.unwrap();
        assert!(!page.gap && page.last >= position.number);
        for change in page.changes {
            assert_eq!(change.number, seen + 1);
            seen = change.number;
        }
        // Nothing below what was announced is missing.
        assert!(seen >= position.number);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(reader.head().await.unwrap().number, 2 * ROUNDS);
}

/// An answer and an absence carry the position of the state that was read.
pub async fn an_answer_carries_its_position(fixture: Fixture) {
    let read_at = async |name: &str| {
        let name = HostName::parse(name).unwrap();
        let answer = fixture.catalog.find(&name).await.unwrap();
        (answer.read_at, answer.found.is_some())
    };
    for (number, name) in ["a.example", "*.b.example"].into_iter().enumerate() {
        let host = host_with(name, number as u64, sealed);
        fixture.catalog.write(Batch::unchecked(host)).await.unwrap();
        let head = Some(ReadAt::from(fixture.catalog.head().await.unwrap()));
        assert_eq!(read_at("a.example").await, (head, true));
        assert_eq!(read_at("x.b.example").await, (head, number == 1));
        assert_eq!(read_at("absent.example").await, (head, false));
    }
}

pub async fn a_new_credential_is_not_announced(fixture: Fixture) {
    let before = fixture.number().await;
    let put = Write::PutCredential(fixture.credential(), Precondition::Absent);
    assert_eq!(
        fixture
            .catalog
            .write(Batch::unchecked(vec![put]))
            .await
            .unwrap(),
        before
    );
    assert_eq!(fixture.number().await, before);
}

pub async fn a_replaced_one_is_one_change(fixture: Fixture) {
    let mut credential = fixture.credential();
    let id = credential.id;
    let mut writes = vec![Write::PutCredential(
        credential.clone(),
        Precondition::Absent,
    )];
    for name in ["a.example", "b.example", "c.example"] {
        writes.push(put_host(record(name, &[(KeyType::Ecdsa, id)])));
    }
    let before = fixture
        .catalog
        .write(Batch::unchecked(writes))
        .await
        .unwrap();
    let old = fixture.catalog.credentials(&[id]).await.unwrap()[0].version;
    credential.chain.truncate(1);
    let put = Write::PutCredential(credential, Precondition::Version(old));
    let number = fixture
        .catalog
        .write(Batch::unchecked(vec![put]))
        .await
        .unwrap();
    assert_eq!(number, before + 1);
    let change = fixture.catalog.changes(before, 9).await.unwrap().changes;
    let subject = Subject::Credential(id);
    let what = What::Put;
    assert_eq!(
        change,
        [Change {
            number,
            subject,
            what
        }]
    );
    let new = fixture.find("b.example").await.unwrap().credentials;
    assert_eq!((new[0].version, new[0].chain.len()), (number, 1));
    // Its end is announced too, behind the host that dropped it.
    let bare = ["a.example", "b.example", "c.example"].map(|name| put_host(record(name, &[])));
    let last = fixture
        .catalog
        .write(Batch::unchecked(bare.to_vec()))
        .await
        .unwrap();
    let changes = fixture.catalog.changes(last - 1, 9).await.unwrap().changes;
    let what = What::Removed;
    let subject = Subject::Credential(id);
    assert_eq!(
        changes,
        [Change {
            number: last,
            subject,
            what
        }]
    );
}

pub async fn what_is_too_old_or_beyond_is_a_gap(fixture: Fixture) {
    let start = fixture.number().await;
    for round in 0..Fixture::KEEP + 50 {
        let host = record_of("a.example", &round.to_string());
        fixture
            .catalog
            .write(Batch::unchecked(vec![put_host(host)]))
            .await
            .unwrap();
    }
    let last = fixture.number().await;
    assert_eq!(last, start + Fixture::KEEP + 50);
    let page = async |after| fixture.catalog.changes(after, 1000).await.unwrap();
    assert!(page(start).await.gap);
    let kept = page(last - Fixture::KEEP).await;
    assert!(!kept.gap);
    assert_eq!(kept.changes.len() as u64, Fixture::KEEP);
    assert!(!page(last).await.gap);
    assert!(page(last + 1).await.gap);
    assert!(page(u64::MAX).await.gap);
}

pub async fn changed_resolves_after_a_write(fixture: Fixture) {
    for round in 0..3 {
        let changed = fixture.catalog.changed();
        let host = record_of("a.example", &round.to_string());
        fixture
            .catalog
            .write(Batch::unchecked(vec![put_host(host)]))
            .await
            .unwrap();
        // Made before the write and polled only after it.
        let bound = Duration::from_secs(10);
        tokio::time::timeout(bound, changed).await.unwrap();
    }
}

pub async fn the_identities_are_fixed(fixture: Fixture) {
    let (id, log) = (
        fixture.catalog.id().await.unwrap(),
        fixture.catalog.head().await.unwrap().log,
    );
    fixture.put("a.example").await;
    assert_eq!(fixture.catalog.id().await.unwrap(), id);
    let after = fixture.catalog.head().await.unwrap();
    assert_eq!(after.log, log);
    let page = fixture.catalog.changes(0, 1).await.unwrap();
    assert_eq!((page.log, page.last), (log, after.number));
}
