//! The sentences on claims of what is due.

use super::fixture::{Fixture, pattern};
use super::lineages::{TTL, due, put, read, write};
use sekisho_certs::host::HostName;
use sekisho_certs::lineage::{Able, Lineage, MAX_CANDIDATES, ToClaim, UNTAKEN};
use sekisho_certs::record::Tenant;

pub async fn the_due_are_claimed_in_their_turns(fixture: Fixture) {
    let now = fixture.now();
    let writes = vec![
        due("third.example", Some(now), 30),
        due("never.example", None, 0),
        due("first.example", Some(now - 9), 10),
        due("later.example", Some(now + 5), -1),
        due("second.example", Some(now - 99), 20),
        due("done.example", Some(now), 5),
    ];
    write(&fixture, writes).await.unwrap();
    write(&fixture, vec![due("done.example", None, 5)])
        .await
        .unwrap();
    assert_eq!(
        claim(&fixture, "a", 2).await,
        ["first.example", "second.example"]
    );
    assert_eq!(
        claim(&fixture, "a", 9).await,
        ["third.example"],
        "not twice"
    );
    assert!(claim(&fixture, "b", 9).await.is_empty());
    fixture.advance(5);
    assert_eq!(claim(&fixture, "b", 0).await, [""; 0]);
    assert_eq!(claim(&fixture, "b", 9).await, ["later.example"]);
    // The claims of the first holder end by the store's clock.
    fixture.advance(5);
    let again = claim(&fixture, "b", 9).await;
    assert_eq!(again, ["first.example", "second.example", "third.example"]);
    let claim = read(&fixture, "first.example")
        .await
        .unwrap()
        .claim
        .unwrap();
    assert_eq!(
        (claim.holder.as_str(), claim.until_ms),
        ("b", (fixture.now() + 10) * 1000)
    );
    fixture.advance(10);
    assert_eq!(read(&fixture, "first.example").await.unwrap().claim, None);
}

/// More are due than a claim looks at: those that have been due longest do not
/// stand before one with a smaller turn.
pub async fn a_backlog_is_claimed_in_turns(fixture: Fixture) {
    let of = |number: i64, due_at, turn| due(&format!("h{number}.example"), Some(due_at), turn);
    let many = i64::try_from(MAX_CANDIDATES).unwrap() + 9;
    let now = fixture.now();
    let mut writes: Vec<_> = (0..many)
        .map(|number| of(number, now - 9, 10 * number))
        .collect();
    writes.extend([of(many, now, 15), of(many + 1, now + 1, 5)]);
    write(&fixture, writes).await.unwrap();
    let last = format!("h{many}.example");
    assert_eq!(
        claim(&fixture, "a", 3).await,
        ["h0.example", "h1.example", last.as_str()]
    );
    let rest = claim(&fixture, "b", MAX_CANDIDATES + 99).await;
    assert_eq!(rest.len(), MAX_CANDIDATES + 7);
    assert_eq!(rest[..2], ["h2.example", "h3.example"]);
}

/// Failed renewals keep small turns, and are not due for a day. However many there are,
/// a backlog behind them is claimed in its turns.
pub async fn what_is_not_due_hides_no_turn(fixture: Fixture) {
    let of = |number: i64, due_at, turn| due(&format!("h{number}.example"), Some(due_at), turn);
    let many = i64::try_from(MAX_CANDIDATES).unwrap() + 9;
    let now = fixture.now();
    let later = (0..many).map(|number| of(number, now + 99, number));
    let old = (many..2 * many).map(|number| of(number, now - 9, 10 * number));
    let urgent = of(2 * many, now, many + 1);
    let writes = later.chain(old).chain([urgent]).collect();
    write(&fixture, writes).await.unwrap();
    let expected = [2 * many, many].map(|number| format!("h{number}.example"));
    assert_eq!(claim(&fixture, "a", 2).await, expected);
}

/// Servers may differ in their CAs and zones.
pub async fn what_another_can_get_is_left_to_it(fixture: Fixture) {
    let now = fixture.now();
    let put = |names: &[&str], ca: Option<&str>, turn| {
        let names = names.iter().map(|name| pattern(name));
        let mut lineage = Lineage::new(Tenant::default(), names).unwrap();
        lineage.wishes.ca = ca.map(str::to_owned);
        (lineage.due, lineage.turn) = (Some(now), turn);
        put(lineage)
    };
    let writes = vec![
        put(&["a.wild.example", "*.wild.example"], None, 1),
        put(&["*.wild.example"], Some("internal"), 2),
        put(&["*.deep.wild.example", "b.wild.example"], None, 3),
        put(&["*.other.example", "*.wild.example"], None, 4),
        put(&["*.notwild.example"], None, 5),
        put(&["one.example", "two.example"], Some("internal"), 6),
        put(&["three.example"], Some("inter"), 7),
        put(&["four.example"], None, 8),
    ];
    write(&fixture, writes).await.unwrap();
    let zone = |name: &str| HostName::parse(name).unwrap();
    let able = |cas: &[&str], without_dns, zones: &[&str]| Able {
        cas: cas.iter().map(|ca| (*ca).to_owned()).collect(),
        without_dns,
        zones: zones.iter().map(|name| zone(name)).collect(),
        everywhere: false,
    };
    assert!(
        claim_able(&fixture, "none", able(&[], false, &[]))
            .await
            .is_empty()
    );
    let direct = able(&["outer", "internal"], true, &[]);
    assert_eq!(
        claim_able(&fixture, "direct", direct).await,
        ["one.example", "four.example"]
    );
    let zoned = able(&["outer"], false, &["wild.example", "three.example"]);
    assert_eq!(
        claim_able(&fixture, "zoned", zoned).await,
        ["a.wild.example", "*.deep.wild.example"]
    );
    // Nobody could: the next one that looks says what is missing.
    fixture.advance(UNTAKEN - 1);
    let one = able(&["outer"], true, &["more.example"]);
    let again = claim_able(&fixture, "one", one.clone()).await;
    assert_eq!(again, ["four.example"]);
    fixture.advance(1);
    assert_eq!(
        claim_able(&fixture, "one", one).await,
        [
            "a.wild.example",
            "*.wild.example",
            "*.deep.wild.example",
            "*.other.example",
            "*.notwild.example",
            "one.example",
            "three.example"
        ]
    );
}

pub async fn who_can_prove_everywhere_takes_all(fixture: Fixture) {
    let now = fixture.now();
    let mut other = Lineage::new(Tenant::default(), [pattern("c.example")]).unwrap();
    other.wishes.ca = Some("other".to_owned());
    (other.due, other.turn) = (Some(now), 3);
    let writes = vec![
        due("*.a.example", Some(now), 1),
        due("b.example", Some(now), 2),
        put(other),
    ];
    write(&fixture, writes).await.unwrap();
    let able = Able {
        everywhere: true,
        ..Able::default()
    };
    let claimed = claim_able(&fixture, "all", able).await;
    assert_eq!(claimed, ["*.a.example", "b.example"]);
}

/// However many are left to others, one behind them is claimed.
pub async fn what_is_left_to_others_hides_nothing(fixture: Fixture) {
    let now = fixture.now();
    let many = i64::try_from(MAX_CANDIDATES).unwrap() + 9;
    let wild = |number| due(&format!("*.w{number}.example"), Some(now - 9), number);
    let mut writes: Vec<_> = (0..many).map(wild).collect();
    writes.push(due("a.example", Some(now), many));
    write(&fixture, writes).await.unwrap();
    assert_eq!(claim(&fixture, "a", 3).await, ["a.example"]);
}

/// The names of those that were due, for a holder that can get single names.
pub(super) async fn claim(fixture: &Fixture, holder: &str, limit: usize) -> Vec<String> {
    let able = Able {
        without_dns: true,
        ..Able::default()
    };
    claim_up_to(fixture, holder, limit, able).await
}

async fn claim_able(fixture: &Fixture, holder: &str, able: Able) -> Vec<String> {
    claim_up_to(fixture, holder, 99, able).await
}

async fn claim_up_to(fixture: &Fixture, holder: &str, limit: usize, able: Able) -> Vec<String> {
    let which = ToClaim::Due { limit, able };
    let claimed = fixture.catalog.claim(which, holder, TTL).await.unwrap();
    let names = claimed.into_iter().map(|(name, _)| name.to_string());
    names.collect()
}
