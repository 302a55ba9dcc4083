//! Nothing is renewed too late, and nothing all at once.

use proptest::prelude::*;
use sekisho_issuance::schedule::{
    Failure, Seed, Validity, Window, after_failure, first_turn, renewal_due, renewal_turn,
};

const DAY: i64 = 86_400;
const NOW: i64 = 1_790_000_000;

proptest! {
    /// Certificates that are seen in time leave at least a sixth of their
    /// lifetime, whatever the CA suggests.
    #[test]
    fn a_certificate_is_due_before_its_deadline(
        name in "[a-z]{1,8}", lifetime in 3_600..400 * DAY, age in 0..1_000_i64,
        window in prop::option::of((-400 * DAY..400 * DAY, -DAY..30 * DAY)),
    ) {
        let validity = Validity { not_before: NOW, not_after: NOW + lifetime };
        let now = NOW + lifetime / 2 * age / 1_000;
        let window = window.map(|(start, length)| Window {
            start: NOW + start,
            end: NOW + start + length,
        });
        let due = renewal_due(now, validity, window, Seed::of(&name));
        prop_assert!((now..=validity.deadline()).contains(&due));
        prop_assert!(validity.not_after - due >= lifetime / 6);
        if let Some(window) = window && window.start >= now && window.end <= validity.deadline() {
            prop_assert!(window.contains(due) || window.end <= window.start);
        }
    }

    /// An import of any age keeps two thirds of the time that is left.
    #[test]
    fn an_import_is_due_before_it_expires(name in "[a-z]{1,8}", left in 1..90 * DAY) {
        let validity = Validity { not_before: NOW + left - 90 * DAY, not_after: NOW + left };
        let due = renewal_due(NOW, validity, None, Seed::of(&name));
        prop_assert!(due >= NOW);
        prop_assert!(due <= NOW.max(validity.not_before + 60 * DAY) + left / 3);
    }

    /// Even if each attempt fails, one comes between deadline and expiry. Six
    /// never come in an hour, and, suspended, two never come in a day.
    #[test]
    fn failures_leave_time_and_load_nobody(name in "[a-z]{1,8}", lifetime in 2 * DAY..100 * DAY) {
        let validity = Validity { not_before: NOW, not_after: NOW + lifetime };
        let seed = Seed::of(&name);
        let mut times = vec![renewal_due(NOW, validity, None, seed)];
        let (mut attempts, mut urgent) = (0, 0);
        while let Some(&now) = times.last() && now < validity.not_after + 30 * DAY {
            let next = after_failure(now, Failure::Names, attempts, Some(validity), seed);
            prop_assert_eq!(next.attempts, attempts + 1);
            attempts = next.attempts;
            urgent += u32::from((validity.deadline()..validity.not_after).contains(&next.due));
            prop_assert!(!next.suspended || next.due - now >= DAY);
            times.push(next.due);
        }
        prop_assert!(times.windows(6).all(|six| six[5] - six[0] > 3_600));
        prop_assert!(urgent >= 1, "no attempt after the deadline");
    }

    #[test]
    fn turns_of_a_tenant_never_run_together(wait in prop::collection::vec(0..10 * DAY, 1..50)) {
        let (mut now, mut previous) = (NOW, None);
        for seconds in wait {
            now += seconds;
            let turn = first_turn(now, previous);
            prop_assert!(turn >= now && previous.is_none_or(|before| turn - before >= 3_600));
            previous = Some(turn);
        }
    }

    /// With the same share of the lifetime left, the one with less time goes first.
    #[test]
    fn the_nearer_deadline_has_the_smaller_turn(short in DAY..45 * DAY, percent in 17..100_i64) {
        let ends = |lifetime: i64| {
            let left = lifetime * percent / 100;
            renewal_turn(Validity { not_before: NOW + left - lifetime, not_after: NOW + left })
        };
        prop_assert!(ends(short) < ends(short * 2));
    }
}

/// All of them imported in the same second: no hour of the next eight renewals
/// has more than 1.5 times its share of the time that they are spread over.
#[test]
fn an_import_is_spread_and_stays_spread() {
    const HOSTS: u32 = 50_000;
    for (lifetime, spread) in [
        (90 * DAY, 10 * DAY),
        (45 * DAY, 5 * DAY),
        (160 * 3_600, 96_000),
    ] {
        let mut issued = vec![NOW; HOSTS as usize];
        for round in 0..8 {
            for (host, at) in (0..HOSTS).zip(&mut issued) {
                let validity = Validity {
                    not_before: *at,
                    not_after: *at + lifetime,
                };
                *at = renewal_due(*at, validity, None, Seed::of(&format!("h{host}.example")));
            }
            let mut hours = std::collections::BTreeMap::<i64, u32>::new();
            for at in &issued {
                *hours.entry(at / 3_600).or_default() += 1;
            }
            let most = hours.values().max().copied().unwrap_or(0);
            let share = i64::from(HOSTS) * 3_600 / spread;
            assert!(
                i64::from(most) < share * 3 / 2,
                "{lifetime} {round}: {most} of {share}"
            );
        }
    }
}
