use std::ops::Range;

use sekisho_issuance::quota::{Bucket, RetryAt, Share};
use sekisho_issuance::schedule::{Validity, after_failure, first_turn, outage};

use super::figures::Figures;
use super::host::{Charged, Host};
use super::{DAY, HOUR, Scenario};

/// Year of a cluster, hour by hour, by the schedule and the quotas of the
/// product. Seconds count from the year's start.
pub(super) struct Year {
    scenario: Scenario,
    hosts: Vec<Host>,
    /// Hosts by the hour in which they are due.
    due: Vec<Vec<u32>>,
    /// Bucket of the account's orders.
    orders: Bucket,
    charged: Charged,
    figures: Figures,
}

impl Year {
    pub(super) fn new(scenario: Scenario) -> Self {
        let mut year = Self {
            hosts: Vec::new(),
            due: vec![Vec::new(); HOURS],
            orders: Bucket::default(),
            charged: Charged::of(&scenario.quotas),
            figures: Figures::new(),
            scenario,
        };
        let (hosts, oldest) = (i64::from(year.scenario.hosts), year.scenario.oldest());
        for number in 0..hosts {
            year.take_over(0, oldest * number / hosts, year.scenario.ari);
        }
        year
    }

    pub(super) fn run(mut self) -> Figures {
        let mut waiting = Vec::new();
        for hour in 0..HOURS {
            let now = hour as i64 * HOUR;
            self.import(now);
            let due = std::mem::take(&mut self.due[hour]);
            match OUTAGE.contains(&now) {
                true => {
                    self.fail(waiting.drain(..).chain(due), now);
                    self.figures.orders.push(0);
                }
                false => waiting = self.order(waiting, due, now),
            }
        }
        self.figures.left_over = waiting.len();
        let ended = |host: &&Host| {
            host.valid
                .is_some_and(|valid| valid.not_after < HOURS as i64 * HOUR)
        };
        self.figures.expired += self.hosts.iter().filter(ended).count() as u64;
        self.figures
    }

    /// Adds one tenant's new names, a single one of another tenant an hour later,
    /// and certificates of another server. ARI is not yet asked for the latter:
    /// those questions have a pace of their own.
    fn import(&mut self, now: i64) {
        if now == NEW_NAMES {
            let mut turn = None;
            for _ in 0..self.scenario.imported {
                let next = first_turn(now, turn);
                turn = Some(next);
                self.add(Host::new(self.hosts.len(), now, next));
            }
        }
        if now == NEW_NAMES + HOUR {
            self.add(Host::new(self.hosts.len(), now, first_turn(now, None)));
        }
        if now == TAKEN_OVER {
            for _ in 0..self.scenario.imported {
                self.take_over(now, self.scenario.lifetime / 4 * 3, false);
            }
        }
    }

    /// Adds a host with a certificate of this age.
    fn take_over(&mut self, now: i64, age: i64, ari: bool) {
        let mut host = Host::new(self.hosts.len(), now, now);
        let not_before = now - age;
        let not_after = not_before + self.scenario.lifetime;
        host.store(
            now,
            Validity {
                not_before,
                not_after,
            },
            ari,
        );
        self.add(host);
    }

    fn add(&mut self, host: Host) {
        self.put(self.hosts.len() as u32, host.due);
        self.hosts.push(host);
    }

    /// Enters a host in its hour; behind the year's end it never comes.
    fn put(&mut self, number: u32, due: i64) {
        if let Some(hosts) = self.due.get_mut((due / HOUR) as usize) {
            hosts.push(number);
        }
    }

    /// Lets all attempts of an hour fail, each as often as it is due.
    fn fail(&mut self, numbers: impl Iterator<Item = u32>, now: i64) {
        for number in numbers {
            let host = &mut self.hosts[number as usize];
            host.due = host.due.max(now);
            while host.due < now + HOUR {
                let failure = outage(host.due, host.due + PASSED_OVER, host.valid);
                let next = after_failure(host.due, failure, host.attempts, host.valid, host.seed);
                (host.due, host.attempts) = (next.due, next.attempts);
                self.figures.failed += 1;
            }
            let due = host.due;
            self.put(number, due);
        }
    }

    /// Orders for what waited and what is due, and returns what has to wait on.
    fn order(&mut self, mut waiting: Vec<u32>, due: Vec<u32>, now: i64) -> Vec<u32> {
        let crowded = !waiting.is_empty() || due.len() > self.scenario.most;
        waiting.extend(due);
        // If there is room for all, their order changes nothing.
        if crowded {
            waiting.sort_by_key(|number| self.hosts[*number as usize].turn);
        }
        let mut made = 0;
        waiting.retain(|&number| {
            let at = now.max(self.hosts[number as usize].due);
            let room = made < self.scenario.most;
            let stays = !room || self.take(number, at).is_err();
            if !stays {
                made += 1;
                self.issue(number, at);
            }
            stays
        });
        self.figures.orders.push(made as u32);
        waiting
    }

    /// Takes what an order for the host costs, all of it or nothing.
    fn take(&mut self, number: u32, at: i64) -> Result<(), RetryAt> {
        let host = &mut self.hosts[number as usize];
        let (limits, share, ms) = (self.charged.by(host.kind(at)), host.share(at), at * 1_000);
        let mut duplicates = host.duplicates;
        if let Some(limit) = limits.duplicates {
            limit.take(&mut duplicates, ms, 1, Share::Whole)?;
        }
        if let Some(limit) = limits.orders {
            limit.take(&mut self.orders, ms, 1, share)?;
        }
        host.duplicates = duplicates;
        Ok(())
    }

    fn issue(&mut self, number: u32, at: i64) {
        let lifetime = self.scenario.lifetime;
        let host = &mut self.hosts[number as usize];
        match host.valid {
            Some(valid) => {
                let left = valid.not_after - at;
                self.figures.expired += u64::from(left < 0);
                self.figures.least_left =
                    self.figures.least_left.min(left as f64 / lifetime as f64);
            }
            None if number == self.scenario.hosts + self.scenario.imported => {
                self.figures.other_tenant = Some(at - NEW_NAMES - HOUR);
            }
            None => self.figures.bulk = self.figures.bulk.max(Some(at - NEW_NAMES)),
        }
        let valid = Validity {
            not_before: at,
            not_after: at + lifetime,
        };
        host.store(at, valid, self.scenario.ari);
        let due = host.due;
        self.put(number, due);
    }
}

/// Longest pause of a CA that fails, in seconds.
const PASSED_OVER: i64 = 600;
const HOURS: usize = 365 * 24;
pub(super) const NEW_NAMES: i64 = 30 * DAY;
pub(super) const TAKEN_OVER: i64 = 120 * DAY;
pub(super) const OUTAGE: Range<i64> = 200 * DAY..201 * DAY;
