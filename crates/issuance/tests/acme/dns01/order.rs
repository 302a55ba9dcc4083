//! A whole order by DNS-01.

use sekisho_issuance::acme::ChallengeType;
use sekisho_testkit::services::PebbleOptions;

use super::{knot, pattern, solver, texts};
use crate::fixture::{Fixture, finish, names, order_of};

#[tokio::test]
async fn a_wildcard_and_its_parent_get_one_certificate() {
    let knot = knot("");
    let fixture = Fixture::with(&PebbleOptions {
        resolver: Some(knot.address()),
        ..PebbleOptions::default()
    });
    let account = fixture.account().await;
    let names = names(&["a.example.test", "*.a.example.test"]);
    let mut order = account.order(&order_of(&names)).await.unwrap();
    let (solver, mut records) = (solver(&knot), Vec::new());
    for authorization in order.authorizations().await.unwrap() {
        let challenge = authorization.challenge(ChallengeType::Dns01).unwrap();
        let name = pattern(&authorization.name);
        let record = solver.locate(&name, &challenge.txt).await.unwrap();
        solver.present(&record).await.unwrap();
        records.push((authorization.name, record));
    }
    let fqdn = &records[0].1.fqdn;
    assert_eq!(texts(&knot, fqdn).await.len(), 2);
    for (name, _) in &records {
        order.set_ready(name, ChallengeType::Dns01).await.unwrap();
    }
    let credential = finish(&mut order, &names, None).await.unwrap();
    assert_eq!(credential.chain().len(), 2);
    for (_, record) in &records {
        solver.clean_up(record).await.unwrap();
    }
    assert!(texts(&knot, fqdn).await.is_empty());
}
