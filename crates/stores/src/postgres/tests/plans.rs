//! Through an index, never by a scan.

use super::super::list::{self, translate};
use super::super::{claims, find, lineages, log, read, write};
use super::columns::literals;
use super::together::snapshot;
use super::*;

#[tokio::test]
async fn every_read_uses_an_index() {
    let url = database();
    let store = create(&url);
    let hosts =
        (0..200).flat_map(|number| host_with(&format!("h{number}.example"), number, sealed));
    store
        .write(Batch::unchecked(hosts.collect()))
        .await
        .unwrap();
    let statements: [(&str, &str); 20] = [
        (find::FIND, "'h1.example', 'example'"),
        (log::CHANGES, "5, 10"),
        (read::HOSTS, "ARRAY['h1.example']"),
        (list::NAME, "ARRAY['h1.example'], ARRAY['example.h1.']"),
        (read::HOSTS_OF, "5, '', 10"),
        (read::CREDENTIALS, "ARRAY[5, 6]::bigint[]"),
        (read::DOCUMENT, "'k', 'a', NULL"),
        (read::LIST_DOCUMENTS, "'k', '', true, NULL, 10"),
        (read::LIST_DOCUMENTS, "'k', 'a', false, 5, 10"),
        (read::NEXT_KIND, "'k'"),
        (write::DOCUMENTS, "ARRAY['k'], ARRAY['a'], NULL"),
        (lineages::LOCK, "ARRAY['h1.example']"),
        (lineages::LINEAGES, "NULL, ARRAY['h1.example']"),
        (lineages::LINEAGES_OF, "5, ARRAY[5, 6]::bigint[]"),
        (lineages::LIST_LINEAGES, "NULL, 'h1.example', 10"),
        (lineages::LIST_FAILING, "NULL, 'h1.example', 10"),
        (lineages::LIST_WITHOUT, "NULL, 'h1.example', 10"),
        (lineages::HELD, "NULL, ARRAY['h1.example']"),
        (
            claims::CLAIM_DUE,
            "NULL, 'holder', 10, 10, 40, 100, 600, ARRAY['ca'], true, ARRAY['zone.example'], \
             false",
        ),
        (claims::CLAIM_NAMED, "5, 'holder', 10, ARRAY['h1.example']"),
    ];
    let fixed = statements.map(|(text, values)| (text.to_owned(), values.to_owned()));
    let lists = lists::each();
    let lists = lists.iter().map(|list| (translate(list), literals(list)));
    let server = services::Postgres::shared();
    for (statement, values) in fixed.into_iter().chain(lists) {
        // With small tables the planner prefers a scan even where an index
        // serves: a plan that still has one has no index.
        let sql = format!(
            "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan;
             PREPARE it AS {statement}; EXPLAIN EXECUTE it ({values})"
        );
        let plan = server.sql(name_of(&url), &sql);
        // Tables of one row, or of some dozen, need no index.
        let mut small = vec!["on meta", "on issuers", "on fence"];
        if plan.contains("hashed SubPlan") {
            small.push("on lineage_claims");
        }
        let scans = plan.lines().filter(|line| line.contains("Seq Scan on"));
        let scans: Vec<_> = scans
            .filter(|line| !small.iter().any(|one| line.contains(one)))
            .collect();
        assert!(scans.is_empty(), "{statement}\n{plan}");
        assert!(!statement.contains("OFFSET"));
    }
}

#[tokio::test]
async fn a_store_without_statistics_is_read_through_indexes() {
    let url = database();
    let store = create(&url);
    store
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    let server = services::Postgres::shared();
    // Autovacuum comes up to a minute after an import.
    let filled = "ALTER TABLE sekisho.meta SET (autovacuum_enabled = off);
        ALTER TABLE sekisho.changes SET (autovacuum_enabled = off);
        ALTER TABLE sekisho.hosts SET (autovacuum_enabled = off);
        INSERT INTO sekisho.hosts (pattern, parent, tenant, tls, disabled, version)
            SELECT 'h' || n || '.example', 'example', '', '1.2', false, n
            FROM generate_series(1, 20000) n;
        INSERT INTO sekisho.changes (number, subject, kind, key, removed, mark)
            SELECT 100 + n, 'host', '', 'h' || n || '.example', false, n
            FROM generate_series(1, 20000) n";
    server.sql(name_of(&url), filled);
    for (statement, values) in [
        (find::FIND, "'h1.example', 'example'"),
        (log::CHANGES, "20090, 1000"),
        (write::send::CUT_LOG, "105, 110"),
    ] {
        let sql = format!("PREPARE it AS {statement}; EXPLAIN EXECUTE it ({values})");
        let plan = server.sql(name_of(&url), &sql);
        let scans = plan.lines().filter(|line| line.contains("Seq Scan on"));
        let mut scans =
            scans.filter(|line| !line.contains("on meta") && !line.contains("on issuers"));
        assert_eq!(scans.next(), None, "{statement}\n{plan}");
    }
}

/// Counts pages, not time: each old version of the counter's row, and each entry that was
/// cut off the log, is kept until the snapshot ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_snapshot_slows_no_lookup() {
    let url = database();
    let store = create(&url);
    store
        .write(Batch::unchecked(host_with("h1.example", 1, sealed)))
        .await
        .unwrap();
    let dump = snapshot(&url).await;
    let server = services::Postgres::shared();
    // What 20,000 announced writes leave behind.
    let written = "DO $$ BEGIN FOR n IN 2..20001 LOOP
            UPDATE sekisho.meta SET number = n, forgotten = n / 2;
        END LOOP; END $$;
        INSERT INTO sekisho.changes (number, subject, kind, key, removed)
            SELECT n, 'host', '', 'h1.example', false FROM generate_series(2, 20001) n;
        DELETE FROM sekisho.changes WHERE number < 10000;
        ANALYZE sekisho.changes";
    server.sql(name_of(&url), written);
    for (statement, values) in [
        (find::FIND, "'h1.example', 'example'"),
        (log::CHANGES, "20000, 1000"),
        (write::send::CUT_LOG, "10000, 10001"),
    ] {
        let sql = format!(
            "PREPARE it AS {statement};
             EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off) EXECUTE it ({values})"
        );
        let plan = server.sql(name_of(&url), &sql);
        let pages = pages(&plan);
        assert!(pages <= MAX_PAGES, "{pages} pages: {statement}\n{plan}");
    }
    drop(dump);
}

#[tokio::test]
async fn many_lineages_are_estimated() {
    let url = database();
    let store = create(&url);
    store.head().await.unwrap();
    let sql = |sql: &str| services::Postgres::shared().sql(name_of(&url), sql);
    sql(
        "ALTER TABLE sekisho.lineages SET (autovacuum_enabled = off);
        INSERT INTO sekisho.lineages (name, tenant, names, turn, attempts)
            SELECT 'h' || n || '.example.com', '', 'h' || n || '.example.com', 0, 0
            FROM generate_series(1, 40000) n",
    );
    // Without statistics at all: some.
    let counted = store.count_lineages().await.unwrap();
    assert!((10_001..=40_000).contains(&counted), "{counted}");
    sql("VACUUM sekisho.lineages");
    let counted = store.count_lineages().await.unwrap();
    assert!((36_000..=44_000).contains(&counted), "{counted}");
    let size = sql("SELECT pg_relation_size('sekisho.lineages') / 8192");
    let plan = sql(&format!(
        "EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off) {}",
        read::COUNT_LINEAGES
    ));
    let (read, all) = (pages(&plan), size.trim().parse::<u32>().unwrap());
    assert!(read < all / 2, "{read} pages of {all}\n{plan}");
}

/// Returns how many pages a plan has read: its first line of that kind is that of the whole
/// statement.
fn pages(plan: &str) -> u32 {
    let line = plan.lines().find(|line| line.contains("Buffers:")).unwrap();
    let numbers = line.split(|character: char| !character.is_ascii_digit());
    numbers
        .filter_map(|number| number.parse::<u32>().ok())
        .sum()
}

/// Pages that a statement reads: some descents of indexes, each of a few. The 20,000
/// versions of the counter's row fill some 200.
const MAX_PAGES: u32 = 25;
