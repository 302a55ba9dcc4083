//! Visits of hosts, what they took, and what was wrong with them.

use std::cell::RefCell;

use anyhow::Result;
use futures_util::future::join_all;
use tokio::time::Instant;

use sekisho_bench::load::client::Client;
use sekisho_bench::load::{Outcome, Tally};
use sekisho_bench::table::Figures;

/// First visits of hosts, and later ones of the same hosts.
pub(super) struct Measured {
    pub(super) names: usize,
    /// Orders that the CA accepted meanwhile.
    pub(super) orders: usize,
    pub(super) first: Outcome,
    pub(super) second: Outcome,
}

impl Measured {
    pub(super) fn describe(&self) -> String {
        let (first, second) = (&self.first.operation_us, &self.second.operation_us);
        format!(
            "first visit p50 {:.1} p99 {:.1} max {:.1} ms, second visit p50 {:.1} ms; {} names, \
             {} orders, {} failed, {:.1} names per second",
            millis(first.p50),
            millis(first.p99),
            millis(first.max),
            millis(second.p50),
            self.names,
            self.orders,
            self.failed(),
            self.names_per_second()
        )
    }

    pub(super) fn figures(&self) -> Figures {
        let (first, second) = (&self.first.operation_us, &self.second.operation_us);
        vec![
            ("first visit p50 ms", millis(first.p50)),
            ("first visit p99 ms", millis(first.p99)),
            ("first visit max ms", millis(first.max)),
            ("second visit p50 ms", millis(second.p50)),
            ("names", self.names as f64),
            ("orders", self.orders as f64),
            ("failed", self.failed() as f64),
            ("names per second", self.names_per_second()),
        ]
    }

    /// Says what was wrong; None if each visitor had the page, and the CA one order for each
    /// name.
    pub(super) fn error(&self) -> Option<String> {
        let visits = [("first", &self.first), ("second", &self.second)];
        let failed = visits.iter().filter(|(_, outcome)| outcome.failed > 0);
        let mut errors: Vec<_> = failed
            .map(|(which, outcome)| {
                let Outcome { failed, errors, .. } = outcome;
                format!("{failed} {which} visits failed: {errors:?}")
            })
            .collect();
        if self.orders != self.names {
            let Self { names, orders, .. } = self;
            errors.push(format!("{orders} orders for {names} names"));
        }
        (!errors.is_empty()).then(|| errors.join("; "))
    }

    fn failed(&self) -> u64 {
        self.first.failed + self.second.failed
    }

    fn names_per_second(&self) -> f64 {
        self.names as f64 / self.first.seconds.max(1e-9)
    }
}

/// Visits each host at each server, with so many visitors at once. The next visitor comes when
/// one is served.
pub(super) async fn visit(clients: &[Client], names: &[String], at_once: usize) -> Result<Outcome> {
    let at_each = |name| clients.iter().map(move |client| (client, name));
    let left = RefCell::new(names.iter().flat_map(at_each));
    let tally = RefCell::new(Tally::new()?);
    let begun = Instant::now();
    join_all((0..at_once).map(|_| visit_left(&left, &tally))).await;
    let took = begun.elapsed();
    Ok(tally.into_inner().outcome(took))
}

/// Makes visits as long as some are left.
async fn visit_left<'c, 'n>(
    left: &RefCell<impl Iterator<Item = (&'c Client, &'n String)>>,
    tally: &RefCell<Tally>,
) {
    let mut buffer = Vec::new();
    loop {
        let next = left.borrow_mut().next();
        let Some((client, name)) = next else { break };
        match client.visit(name, Some("/"), &mut buffer).await {
            Ok(visit) => tally.borrow_mut().operation(visit.whole),
            Err(failure) => tally.borrow_mut().failure(&failure, name),
        }
    }
}

fn millis(us: u64) -> f64 {
    us as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sekisho_bench::load::Failure;

    use super::*;

    #[test]
    fn visits_that_fail_and_orders_beyond_the_names_are_errors() {
        let outcome = |failed: u32| {
            let mut tally = Tally::new().unwrap();
            tally.operation(Duration::from_millis(50));
            for _ in 0..failed {
                tally.failure(&Failure::Deadline, "");
            }
            tally.outcome(Duration::from_secs(2))
        };
        let measured = |failed, orders| Measured {
            names: 10,
            orders,
            first: outcome(failed),
            second: outcome(0),
        };
        assert_eq!(measured(0, 10).error(), None);
        assert_eq!(measured(0, 10).names_per_second(), 5.0);
        let error = measured(1, 11).error().unwrap();
        let said = r#"1 first visits failed: {"deadline": 1}; 11 orders for 10 names"#;
        assert_eq!(error, said);
        assert!(measured(0, 9).error().is_some());
    }
}
