//! Hosts that a connection reaches if its handshake asked the hook.

use sekisho_certs::Tenant;
use sekisho_server::hook::{Answer, Choice, Question};
use tokio::time::Instant;

use crate::common::Setup;
use crate::common::metrics::figure;
use crate::world::{World, answer, failed, name};

/// Tells the questions for this name.
fn asks(question: &Question, host: &str) -> bool {
    question.server_name == Some(name(host))
}

/// Makes an answer that has ended already.
fn ended(choice: Choice) -> Answer {
    Answer {
        until: Instant::now(),
        ..answer(choice)
    }
}

#[tokio::test]
async fn the_choice_for_the_own_name_is_kept_while_its_record_is_unchanged() {
    // The store has no `a.example`.
    let world = World::new(&["b.example"]);
    for (round, h2) in [(0, false), (10, true)] {
        world.hook.chooses(|_| Choice::Use(name("b.example")));
        world.change(round + 1, "unrelated.example");
        let mut visit = world.visit("a.example", h2).await;
        let calls = world.hook.calls();
        let served = (308, "b.example".to_owned());
        assert_eq!(visit.get("a.example").await, served);
        // The log moves on: the record is looked up again, the hook is not asked.
        world.change(round + 2, "unrelated.example");
        assert_eq!(visit.get("A.example").await, served);
        assert_eq!(world.hook.calls(), calls);
        // A change of the name itself is none of the record used.
        world.change(round + 3, "a.example");
        assert_eq!(visit.get("a.example").await, served);
        assert_eq!(world.hook.calls(), calls);

        let mut changed = world.record("b.example");
        changed.record.version = round + 4;
        world.running.store.put(changed);
        world.change(round + 4, "b.example");
        assert_eq!(visit.get("a.example").await, served, "chosen again");
        assert_eq!(world.hook.calls(), calls + 1);

        // The hook would choose otherwise now, and is asked after the next change.
        world.hook.chooses(|_| Choice::Lookup);
        assert_eq!(visit.get("a.example").await, served, "still kept");
        let mut changed = world.record("b.example");
        changed.record.version = round + 5;
        world.running.store.put(changed);
        world.change(round + 5, "b.example");
        assert_eq!(visit.get("a.example").await.0, 421);
        visit.ends().await;
    }
}

#[tokio::test]
async fn a_choice_that_has_ended_is_made_again() {
    let world = World::new(&["a.example", "b.example"]);
    for h2 in [false, true] {
        world
            .hook
            .answers(|_| ended(Choice::Use(name("b.example"))));
        let mut visit = world.visit("a.example", h2).await;
        let calls = world.hook.calls();
        for more in 1..3 {
            assert_eq!(visit.get("a.example").await, (308, "b.example".into()));
            assert_eq!(world.hook.calls(), calls + more);
        }
        // Another host ends the connection, although its tenant is the same.
        world.hook.chooses(|_| Choice::Lookup);
        assert_eq!(visit.get("a.example").await.0, 421);
        visit.ends().await;
    }
}

/// The handshake is over: an outage of what the hook asks must not end the service of its
/// client.
#[tokio::test]
async fn what_was_chosen_is_served_on_while_the_hook_fails() {
    let world = World::new(&["a.example", "b.example"]);
    let made = world.made("", Some("key"));
    let mut served_on = 0;
    for h2 in [false, true] {
        for is_made in [false, true] {
            // Each policy for failures, of which none knows the host.
            for policy in [|| Choice::Lookup, || Choice::Default, || Choice::Refuse(80)] {
                let made = made.clone();
                world.hook.answers(move |_| match is_made {
                    true => ended(Choice::Made(made.clone())),
                    false => ended(Choice::Use(name("b.example"))),
                });
                let mut visit = world.visit("a.example", h2).await;
                let before = visit.get("a.example").await;
                assert_eq!(before.0, 308);
                world.hook.answers(move |_| failed(policy()));
                assert_eq!(visit.get("a.example").await, before);
                served_on += 1;
            }
        }
    }
    let counted = figure(
        &world.running,
        "sekisho_lookups_total{outcome=\"hook_kept\"}",
    );
    assert_eq!(counted.await, served_on);
}

/// What is served on is the record as it was: another one is not what the hook chose.
#[tokio::test]
async fn a_record_that_changed_is_not_served_on_while_the_hook_fails() {
    let world = World::new(&["b.example"]);
    world
        .hook
        .answers(|_| ended(Choice::Use(name("b.example"))));
    world.change(1, "unrelated.example");
    let mut visit = world.visit("a.example", true).await;
    assert_eq!(visit.get("a.example").await.0, 308);
    world.hook.answers(|_| failed(Choice::Refuse(80)));
    let mut moved = world.record("b.example");
    moved.record.tenant = Tenant::parse("other").unwrap();
    world.running.store.put(moved);
    world.change(2, "b.example");
    assert_eq!(visit.get("a.example").await.0, 503);
}

#[tokio::test]
async fn a_refusal_or_an_absence_ends_the_connection() {
    let world = World::new(&["a.example", "b.example"]);
    for choice in [
        || Choice::Refuse(49),
        || Choice::Use(name("absent.example")),
        || Choice::Default,
    ] {
        world.hook.answers(|_| ended(Choice::Lookup));
        let mut visit = world.visit("a.example", true).await;
        assert_eq!(visit.get("a.example").await.0, 308);
        world.hook.chooses(move |_| choice());
        assert_eq!(visit.get("a.example").await.0, 421);
        visit.ends().await;
    }
}

#[tokio::test]
async fn a_moved_host_ends_the_connection_that_uses_it() {
    let world = World::new(&["b.example"]);
    world.hook.chooses(|_| Choice::Use(name("b.example")));
    world.change(1, "unrelated.example");
    let mut visit = world.visit("a.example", false).await;
    assert_eq!(visit.get("a.example").await.0, 308);
    let mut moved = world.record("b.example");
    moved.record.tenant = Tenant::parse("other").unwrap();
    world.running.store.put(moved);
    world.change(2, "b.example");
    assert_eq!(visit.get("a.example").await.0, 421);
    visit.ends().await;

    let mut visit = world.visit("a.example", false).await;
    world.running.store.remove("b.example");
    world.change(3, "b.example");
    assert_eq!(visit.get("a.example").await.0, 421);
    visit.ends().await;
}

#[tokio::test]
async fn a_certificate_holds_until_its_end() {
    let world = World::new(&[]);
    let again = world.made("", Some("key"));
    let (tenant, other) = (world.made("t", Some("key")), world.made("", Some("other")));
    for otherwise in [tenant, other] {
        let made = world.made("", Some("key"));
        let first = made.clone();
        world.hook.chooses(move |_| Choice::Made(first.clone()));
        let mut visit = world.visit("a.example", true).await;
        let calls = world.hook.calls();
        assert_eq!(visit.get("a.example").await, (308, "made".into()));
        assert_eq!(world.hook.calls(), calls, "it holds");
        world
            .hook
            .answers(move |_| ended(Choice::Made(made.clone())));
        let mut visit = world.visit("a.example", true).await;
        let calls = world.hook.calls();
        let renewed = again.clone();
        world
            .hook
            .answers(move |_| ended(Choice::Made(renewed.clone())));
        assert_eq!(visit.get("a.example").await.0, 308, "renewed");
        assert_eq!(world.hook.calls(), calls + 1);
        world.hook.chooses(move |_| Choice::Made(otherwise.clone()));
        assert_eq!(visit.get("a.example").await.0, 421);
        visit.ends().await;
    }
}

#[tokio::test]
async fn another_name_is_what_the_hook_chooses_for_it() {
    let world = World::with(
        &["a.example", "b.example", "c.example", "used.wild.example"],
        Setup::default(),
        |found| {
            if found.record.pattern.as_str() == "b.example" {
                found.record.tenant = Tenant::parse("other").unwrap();
            }
        },
    );
    let made = world.made("", Some("key"));
    let others = world.made("other", Some("key"));
    for h2 in [false, true] {
        let (made, others) = (made.clone(), others.clone());
        world
            .hook
            .chooses(move |question| match &question.server_name {
                Some(name) if name.as_str() == "made.wild.example" => Choice::Made(made.clone()),
                Some(name) if name.as_str() == "others.wild.example" => {
                    Choice::Made(others.clone())
                }
                Some(name) if name.as_str() == "refused.wild.example" => Choice::Refuse(49),
                Some(host) if host.as_str() == "used.wild.example" => {
                    Choice::Use(name("c.example"))
                }
                Some(host) if host.as_str() == "moved.wild.example" => {
                    Choice::Use(name("b.example"))
                }
                _ => Choice::Lookup,
            });
        let mut visit = world.visit("a.example", h2).await;
        for (host, status, pattern) in [
            ("c.example", 308, "c.example"),
            // The store has this one, which must not be reached around the hook.
            ("used.wild.example", 308, "c.example"),
            ("made.wild.example", 308, "made"),
            ("others.wild.example", 421, ""),
            ("refused.wild.example", 421, ""),
            ("moved.wild.example", 421, ""),
            ("absent.wild.example", 421, ""),
            ("b.example", 421, ""),
            ("uncovered.example", 421, ""),
            ("127.0.0.1", 421, ""),
            ("a.example", 308, "a.example"),
        ] {
            assert_eq!(visit.get(host).await, (status, pattern.into()), "{host}");
        }
        let asked = world.hook.asked();
        assert!(
            !asked
                .iter()
                .any(|question| asks(question, "uncovered.example"))
        );
        // The other facts are those of the connection.
        let (first, last) = (&asked[0].facts, &asked[asked.len() - 1].facts);
        assert_eq!(first.cipher_suites, last.cipher_suites);
    }
}

#[tokio::test]
async fn another_name_is_asked_for_again_and_ends_nothing() {
    let world = World::new(&["a.example", "b.example"]);
    let mut visit = world.visit("a.example", true).await;
    assert_eq!(visit.get("b.example").await, (308, "b.example".into()));
    let calls = world.hook.calls();
    assert_eq!(visit.get("b.example").await.0, 308);
    assert_eq!(world.hook.calls(), calls, "kept");
    world.hook.answers(|_| failed(Choice::Refuse(80)));
    assert_eq!(visit.get("c.example").await.0, 503, "no absence");
    world.hook.chooses(|_| Choice::Refuse(49));
    assert_eq!(visit.get("c.example").await.0, 421);
    assert_eq!(visit.get("a.example").await.0, 308);
    assert_eq!(visit.get("b.example").await.0, 308);
}

#[tokio::test]
async fn a_name_in_another_form_asks_for_nothing_more() {
    let world = World::new(&["b.example"]);
    let made = world.made("", None);
    world
        .hook
        .chooses(move |question| match asks(question, "a.example") {
            true => Choice::Made(made.clone()),
            false => Choice::Lookup,
        });
    let mut visit = world.visit("a.example", false).await;
    for host in ["a.example.", "A.Example", "a.example:8443", "b.example."] {
        assert_eq!(visit.get(host).await.0, 308, "{host}");
    }
    let (calls, loads) = (world.hook.calls(), world.running.store.calls());
    for host in ["a.example.", "b.example.", "B.example"] {
        assert_eq!(visit.get(host).await.0, 308, "{host}");
    }
    assert_eq!(world.hook.calls(), calls);
    assert_eq!((calls, loads), (2, 1));
}
