//! Points at which a server is killed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::acme_faults::orders::{NEW_ORDER, Orders};

/// Request of an order, and a moment of it.
pub(super) struct Point {
    /// First part of the path, which names the step at Pebble.
    step: String,
    /// Number among the requests of this step, from 1.
    nth: usize,
    moment: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// The CA does not get the request.
    Asked,
    /// The CA has answered; the server does not get it.
    Answered,
    /// So long after the server has got the answer.
    After(Duration),
}

impl Point {
    /// Returns the points of an order with these steps.
    pub(super) fn all(steps: &[String]) -> Vec<Self> {
        let mut points = Vec::new();
        let mut times = BTreeMap::new();
        for step in steps {
            let nth: &mut usize = times.entry(step).or_default();
            *nth += 1;
            let mut moments = vec![Moment::Asked, Moment::Answered];
            if step == CERTIFICATE {
                moments.extend(AFTER.map(|us| Moment::After(Duration::from_micros(us))));
            }
            points.extend(moments.into_iter().map(|moment| Self {
                step: step.clone(),
                nth: *nth,
                moment,
            }));
        }
        points
    }

    /// Tells whether nobody can know the order that was begun.
    pub(super) fn may_order_twice(&self) -> bool {
        self.step == NEW_ORDER && self.moment == Moment::Answered
    }

    pub(super) fn describe(&self) -> String {
        let Self { step, nth, .. } = self;
        match self.moment {
            Moment::Asked => format!("before {step} {nth}"),
            Moment::Answered => format!("at the answer to {step} {nth}"),
            Moment::After(time) => {
                format!("{:.1} ms after {step} {nth}", time.as_secs_f64() * 1000.0)
            }
        }
    }
}

/// Watch over the requests of a catalog's servers. Kills one of them at its point.
pub(super) struct Watch {
    pub(super) point: Option<Point>,
    pid: AtomicI32,
    is_killed: AtomicBool,
    orders: Orders,
    steps: Mutex<Vec<String>>,
}

impl Watch {
    pub(super) fn new(point: Option<Point>) -> Self {
        Self {
            point,
            pid: AtomicI32::new(0),
            is_killed: AtomicBool::new(false),
            orders: Orders::default(),
            steps: Mutex::default(),
        }
    }

    /// Says whom to kill.
    pub(super) fn doom(&self, pid: u32) -> Result<()> {
        self.pid.store(i32::try_from(pid)?, Ordering::SeqCst);
        Ok(())
    }

    /// Sees a request, or with a status its answer. Tells whether it goes on.
    pub(super) fn sees(&self, path: &str, status: Option<u16>) -> bool {
        let step = path.split('/').nth(1).unwrap_or_default();
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        if status.is_none() {
            steps.push(step.to_owned());
        }
        self.orders.see(path, status);
        let nth = steps.iter().filter(|one| *one == step).count();
        let Some(point) = &self.point else {
            return true;
        };
        if point.step != step || point.nth != nth || self.is_killed() {
            return true;
        }
        match (point.moment, status) {
            (Moment::Asked, None) | (Moment::Answered, Some(_)) => {
                self.kill();
                false
            }
            (Moment::After(time), Some(_)) => {
                self.is_killed.store(true, Ordering::SeqCst);
                let pid = self.pid();
                thread::spawn(move || {
                    thread::sleep(time);
                    kill(pid)
                });
                true
            }
            _ => true,
        }
    }

    pub(super) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::SeqCst)
    }

    pub(super) fn orders(&self) -> usize {
        self.orders.count()
    }

    pub(super) fn steps(&self) -> Vec<String> {
        let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.clone()
    }

    fn kill(&self) {
        self.is_killed.store(true, Ordering::SeqCst);
        // The process has not ended by itself: its requests are not answered.
        let _ = kill(self.pid());
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.pid.load(Ordering::SeqCst))
    }
}

fn kill(pid: Option<Pid>) -> Result<()> {
    Ok(kill_process(pid.context("it runs")?, Signal::KILL)?)
}

/// First part of Pebble's path of a certificate.
const CERTIFICATE: &str = "certZ";
/// Microseconds after the certificate: around the time at which it is stored.
const AFTER: [u64; 7] = [0, 1000, 2000, 4000, 8000, 16_000, 32_000];
/// More than the last of them.
pub(super) const LATEST: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_its_points() {
        let steps = ["dir", "nonce", "nonce", CERTIFICATE].map(String::from);
        let points = Point::all(&steps);
        assert_eq!(points.len(), 2 * steps.len() + AFTER.len());
        assert_eq!(points[5].describe(), "at the answer to nonce 2");
        assert!(points.iter().all(|point| !point.may_order_twice()));
        let points = Point::all(&[NEW_ORDER.to_owned()]);
        assert!(!points[0].may_order_twice() && points[1].may_order_twice());
    }

    #[test]
    fn the_exchange_ends_at_its_point_and_nowhere_else() {
        let point = Point {
            step: NEW_ORDER.to_owned(),
            nth: 2,
            moment: Moment::Answered,
        };
        let (watch, path) = (Watch::new(Some(point)), format!("/{NEW_ORDER}"));
        assert!(watch.sees("/dir", None) && watch.sees("/dir", Some(200)));
        for status in [None, Some(201), None] {
            assert!(watch.sees(&path, status));
        }
        assert!(!watch.sees(&path, Some(201)) && watch.is_killed());
        assert_eq!(watch.orders(), 2);
        assert!(watch.sees(&path, None) && watch.sees(&path, Some(201)));
    }
}
