use super::*;

/// A day in 2026 as time of the tests.
const NOW: i64 = 1_790_000_000;

fn issued(lifetime: i64) -> Validity {
    Validity {
        not_before: NOW,
        not_after: NOW + lifetime,
    }
}

fn seeds(count: u32) -> impl Iterator<Item = Seed> {
    (0..count).map(|host| Seed::of(&format!("h{host}.example")))
}

#[test]
fn renewals_begin_where_lets_encrypt_advises() {
    for (lifetime, earliest, latest) in [
        (90 * DAY, 60 * DAY, 70 * DAY),
        (45 * DAY, 30 * DAY, 35 * DAY),
        (10 * DAY, 6 * DAY + 16 * HOUR, 7 * DAY + 19 * HOUR),
        (160 * HOUR, 80 * HOUR, 107 * HOUR),
        (HOUR, 30 * MINUTE, 40 * MINUTE),
    ] {
        let due = seeds(2_000).map(|seed| renewal_due(NOW, issued(lifetime), None, seed) - NOW);
        let due: Vec<_> = due.collect();
        let (first, last) = (due.iter().min().unwrap(), due.iter().max().unwrap());
        assert!(
            *first >= earliest && *last <= latest,
            "{lifetime}: {first} to {last}"
        );
        assert!(
            (last - first) * 100 > (latest - earliest) * 90,
            "{lifetime}: not spread"
        );
    }
}

#[test]
fn an_imported_certificate_past_its_time_is_not_due_at_once_with_all_others() {
    let old = Validity {
        not_before: NOW - 80 * DAY,
        not_after: NOW + 10 * DAY,
    };
    let due = seeds(1_000).map(|seed| renewal_due(NOW, old, None, seed) - NOW);
    let first_day = due.filter(|due| *due < DAY).count();
    assert!(
        (200..400).contains(&first_day),
        "{first_day} of 1,000 over 3 days"
    );
}

#[test]
fn a_window_is_followed_and_redrawn_only_if_it_changes() {
    let validity = issued(90 * DAY);
    let window = Window {
        start: NOW + 20 * DAY,
        end: NOW + 22 * DAY,
    };
    let seed = Seed::of("example.com");
    let due = renewal_due(NOW, validity, Some(window), seed);
    assert!(window.contains(due));
    assert_eq!(renewal_due(NOW + DAY, validity, Some(window), seed), due);
    let revoked = Window {
        start: NOW - DAY,
        end: NOW - HOUR,
    };
    assert_eq!(
        renewal_due(NOW, validity, Some(revoked), seed),
        NOW,
        "at once"
    );
}

#[test]
fn a_useless_window_leaves_the_own_schedule() {
    let validity = issued(90 * DAY);
    let seed = Seed::of("example.com");
    let own = renewal_due(NOW, validity, None, seed);
    let window = |start, end| Some(Window { start, end });
    for useless in [
        window(NOW + DAY, NOW + DAY),
        window(NOW + DAY, NOW),
        window(i64::MIN, i64::MAX),
        window(validity.not_after, validity.not_after + DAY),
        window(i64::MAX - 1, i64::MAX),
    ] {
        assert_eq!(
            renewal_due(NOW, validity, useless, seed),
            own,
            "{useless:?}"
        );
    }
}

#[test]
fn an_expired_certificate_is_due_at_once() {
    let expired = Validity {
        not_before: NOW - 91 * DAY,
        not_after: NOW - DAY,
    };
    assert_eq!(renewal_due(NOW, expired, None, Seed::of("a.example")), NOW);
}

#[test]
fn a_tenants_bulk_does_not_stand_before_other_tenants() {
    let mut bulk = Vec::new();
    for _ in 0..50_000 {
        bulk.push(first_turn(NOW, bulk.last().copied()));
    }
    let later = NOW + 5 * DAY;
    let other = first_turn(later, None);
    let before = bulk.iter().filter(|turn| **turn < other).count();
    assert_eq!(before, 5 * 24, "one per hour, less than any CA allows");
    assert_eq!(first_turn(NOW, Some(NOW - DAY)), NOW, "a turn that is over");
}

#[test]
fn urgency_is_relative_to_the_lifetime() {
    let ends_in = |lifetime: i64, left: i64| {
        renewal_turn(Validity {
            not_before: NOW + left - lifetime,
            not_after: NOW + left,
        })
    };
    assert!(ends_in(6 * DAY, 2 * DAY) < ends_in(90 * DAY, 30 * DAY));
    assert!(ends_in(90 * DAY, 10 * DAY) < ends_in(6 * DAY, 2 * DAY));
    assert!(
        ends_in(90 * DAY, 14 * DAY) < first_turn(NOW, None),
        "past its deadline"
    );
    assert!(first_turn(NOW, None) < ends_in(90 * DAY, 16 * DAY));
}

#[test]
fn failures_are_tried_again_as_the_table_says() {
    let calm = issued(90 * DAY);
    let late = Validity {
        not_before: NOW - 80 * DAY,
        not_after: NOW + 10 * DAY,
    };
    let rows: [(Failure, Option<Validity>, [i64; 7]); 5] = [
        (
            Failure::Names,
            Some(calm),
            [1, 10, 100, 1440, 1440, 1440, 1440],
        ),
        (Failure::Names, Some(late), [1, 5, 15, 60, 180, 360, 360]),
        (Failure::Names, None, [1, 5, 15, 60, 180, 360, 1440]),
        (
            Failure::Authority,
            Some(calm),
            [1, 10, 100, 1440, 1440, 1440, 1440],
        ),
        (Failure::Authority, None, [1, 5, 15, 60, 60, 60, 60]),
    ];
    for (failure, validity, minutes) in rows {
        for (before, minutes) in [0, 1, 2, 3, 4, 8, 9].into_iter().zip(minutes) {
            let next = after_failure(NOW, failure, before, validity, Seed::of("a.example"));
            let (pause, least) = (next.due - NOW, minutes * MINUTE);
            assert!(
                (least..=least + least / 8).contains(&pause),
                "{failure:?} {before}: {pause}"
            );
            let daily = failure == Failure::Names && before >= 9 && minutes == 1440;
            assert_eq!(next.suspended, daily, "{failure:?} {validity:?} {before}");
            assert_eq!(is_suspended(next.attempts, NOW, next.due), daily);
        }
    }
}

#[test]
fn no_pause_takes_much_of_the_lifetime() {
    let seed = Seed::of("a.example");
    for (lifetime, short, calm) in [
        (90 * DAY, 3 * DAY, 27 * HOUR),
        (160 * HOUR, 5 * HOUR + 20 * MINUTE, 26 * HOUR + 40 * MINUTE),
        (5 * MINUTE, 10, 50),
        (MINUTE, 5, 25),
    ] {
        let validity = Some(issued(lifetime));
        for (age, failure, longest) in [
            (lifetime / 2, Failure::Names, short),
            (lifetime - 1, Failure::Names, short),
            (lifetime / 2, Failure::Authority, calm),
            (lifetime - 1, Failure::Authority, short),
            // The CA works again some time, and then the certificate is missed.
            (lifetime + 1, Failure::Authority, short),
        ] {
            for attempts in [0, 3, 20] {
                let now = NOW + age;
                let next = after_failure(now, failure, attempts, validity, seed);
                let pause = next.due - now;
                assert!(
                    (5..=longest).contains(&pause),
                    "{lifetime} {failure:?} {age} {attempts}: {pause}"
                );
            }
        }
    }
    // Nothing is left to be saved of names that are to blame.
    let next = after_failure(NOW + HOUR, Failure::Names, 20, Some(issued(MINUTE)), seed);
    assert!(next.due - NOW > DAY && next.suspended);
}

#[test]
fn what_a_ca_holds_up_is_due_when_it_opens() {
    let seed = Seed::of("a.example");
    for (validity, attempts) in [(None, 0), (None, 7), (Some(issued(90 * DAY)), 3)] {
        for (seconds, latest) in [(0, 5), (5, 5), (12, 13), (600, 675)] {
            let failure = Failure::PassedOver {
                until: NOW + seconds,
            };
            let next = after_failure(NOW, failure, attempts, validity, seed);
            let pause = next.due - NOW;
            assert!((seconds.max(5)..=latest).contains(&pause), "{pause}");
            assert_eq!((next.attempts, next.suspended), (attempts.max(1), false));
        }
    }
}

#[test]
fn what_can_wait_comes_back_over_the_day_after_an_outage() {
    let until = NOW + 10 * MINUTE;
    let calm = issued(90 * DAY);
    assert_eq!(outage(NOW, until, None), Failure::PassedOver { until });
    assert_eq!(outage(NOW, until, Some(calm)), Failure::Authority);
    assert_eq!(
        outage(calm.deadline(), until, Some(calm)),
        Failure::PassedOver { until }
    );
    for lifetime in [90 * DAY, 160 * HOUR] {
        let spread = back_after_a_day(lifetime);
        let busiest = spread.iter().max();
        // As many as were due in one hour of the outage, and half as many again.
        assert!(busiest <= Some(&150), "{lifetime}: {spread:?}");
    }
}

/// Returns the renewals of each hour after an outage of a day. Of each of its hours, 100
/// hosts were due.
fn back_after_a_day(lifetime: i64) -> Vec<u32> {
    let mut hours = vec![0; 30];
    for number in 0..2_400 {
        let seed = Seed::of(&format!("h{number}.example"));
        let validity = issued(lifetime);
        let due = NOW + lifetime / 3 * 2 - (lifetime / 6) * i64::from(lifetime < 10 * DAY);
        let (mut now, end) = (due + 36 * number, due + DAY);
        let mut attempts = 0;
        // The hosts were issued one after the other.
        let validity = Validity {
            not_before: validity.not_before + 36 * number,
            not_after: validity.not_after + 36 * number,
        };
        while now < end {
            let failure = outage(now, now + 10 * MINUTE, Some(validity));
            let next = after_failure(now, failure, attempts, Some(validity), seed);
            (now, attempts) = (next.due, next.attempts);
        }
        let hour = usize::try_from((now - end) / HOUR).unwrap();
        hours[hour] += 1;
    }
    hours
}

#[test]
fn names_that_fail_again_and_again_give_way() {
    let late = Validity {
        not_before: NOW - 100 * DAY,
        not_after: NOW - 10 * DAY,
    };
    let turn = |attempts| failed_turn(NOW, attempts, Some(late));
    // Renewals that are due now have their deadline within 15 days.
    let renewal = renewal_turn(issued(90 * DAY)) - 60 * DAY;
    assert!(turn(2) < renewal && renewal <= turn(3), "{}", turn(3));
    assert_eq!([0, 2].map(turn), [NOW, NOW], "never before the failure");
    assert_eq!(failed_turn(NOW, 1, None), NOW);
    let calm = issued(90 * DAY);
    assert_eq!(failed_turn(NOW, 1, Some(calm)), calm.deadline());
}

#[test]
fn what_gave_way_stays_behind_whatever_else_fails() {
    let validity = Some(issued(90 * DAY));
    let (deadline, late) = (issued(90 * DAY).deadline(), NOW + 15 * DAY);
    let [due, until] = [MINUTE, HOUR].map(|pause| NOW + pause);
    for (failure, first) in [
        (Failure::Authority, due),
        (Failure::PassedOver { until }, late),
        (Failure::Closed { until }, late),
    ] {
        for attempts in [1, 2, 3, 30] {
            let next = Next {
                due,
                attempts,
                suspended: false,
            };
            let turns = [validity, None].map(|validity| turn_after(failure, late, next, validity));
            let expected = match attempts {
                1 | 2 => [deadline, first],
                _ => [late, late],
            };
            assert_eq!(turns, expected, "{failure:?} {attempts}");
        }
    }
}

#[test]
fn a_renewal_is_tried_at_its_deadline() {
    let validity = issued(90 * DAY);
    let seed = Seed::of("a.example");
    let due = |now, failure| after_failure(now, failure, 7, Some(validity), seed).due;
    let deadline = validity.deadline();
    assert_eq!(due(deadline - HOUR, Failure::Names), deadline);
    assert_eq!(due(deadline - 1, Failure::Authority), deadline - 1 + MINUTE);
    for before in [1, HOUR] {
        let next = after_failure(deadline - before, Failure::Names, 20, Some(validity), seed);
        assert!(!next.suspended, "{before} s before the deadline");
    }
    let until = deadline + DAY;
    assert!(
        due(deadline - HOUR, Failure::Closed { until }) >= until,
        "the CA refuses anyway"
    );
}

#[test]
fn only_what_the_names_are_to_blame_for_is_counted() {
    let seed = Seed::of("a.example");
    let next = |failure, attempts| after_failure(NOW, failure, attempts, None, seed).attempts;
    assert_eq!(next(Failure::Names, 0), 1);
    assert_eq!(
        [0, 3, 4, 7].map(|n| next(Failure::Authority, n)),
        [1, 4, 4, 7]
    );
    let until = NOW + 34 * HOUR;
    let closed = after_failure(NOW, Failure::Closed { until }, 2, None, seed);
    assert_eq!((closed.attempts, closed.suspended), (2, false));
    assert!((until..until + 5 * HOUR).contains(&closed.due));
}

#[test]
fn refused_names_of_one_tenant_leave_a_limit_to_others() {
    let until = NOW + 36;
    let again = |place: i64| first_again(NOW, until, NOW + place * HOUR);
    assert_eq!(
        [-1, 0, 1, 100].map(again),
        [until, until, until + 9, until + 900]
    );
    let per_minute = (0..50_000).filter(|place| again(*place) < until + MINUTE);
    assert_eq!(per_minute.count(), 7);
    assert_eq!(again(i64::MAX / HOUR / 2), until + DAY, "a senseless turn");
}

#[test]
fn lineages_that_were_not_asked_about_spread() {
    for (lineages, most) in [(0, 600), (48_000, 600), (2_000_000, 25_000)] {
        let draws = (0..1000).map(|host| Seed::of(&format!("h{host}.example")));
        let mut draws: Vec<_> = draws.map(|seed| ari_retry(NOW, lineages, seed)).collect();
        draws.sort_unstable();
        assert!(draws[0] >= MINUTE && draws[999] < most, "{lineages}");
        assert!(
            draws[999] - draws[0] > (most - MINUTE) * 9 / 10,
            "{lineages}"
        );
    }
    let looks = (0..1000).map(|host| first_look(NOW, Seed::of(&format!("h{host}.example"))));
    let late = looks.filter(|look| *look >= NOW + 3 * HOUR).count();
    assert!((400..600).contains(&late), "{late}");
}

#[test]
fn ari_is_asked_ten_times_a_second_by_all() {
    assert_eq!(ari_pause(2_000_000, None), 200_000, "55.6 hours");
    assert_eq!(ari_pause(10, None), 6 * HOUR);
    assert_eq!(
        [-5, 3_600, i64::MAX].map(|s| ari_pause(10, Some(s))),
        [MINUTE, HOUR, DAY]
    );
    assert_eq!(ari_pause(u64::MAX, Some(1)), 1_844_674_407_370_955_162);
}

#[test]
fn cnames_are_looked_for_every_five_minutes() {
    let looks = (0..1000).map(|host| cname_look(NOW, Seed::of(&format!("h{host}.example"))));
    let looks: Vec<_> = looks.map(|look| look - NOW).collect();
    assert!(looks.iter().all(|look| (270..330).contains(look)));
    let late = looks.iter().filter(|look| **look >= 300).count();
    assert!((400..600).contains(&late), "{late}");
}
