//! Condition of the machine during a sample: what else it did.

use std::fs;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::machine;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Condition {
    /// Load average of a minute, after the sample.
    pub(crate) load: f64,
    /// Percentage of all cores' time that the hypervisor gave to others during the sample.
    pub(crate) stolen_percent: f64,
    /// Time of a P-256 signature on the client's core before the sample.
    pub(crate) signature_us: f64,
}

/// Readings before a sample.
pub(crate) struct Watch {
    signature_us: f64,
    ticks: Ticks,
}

impl Watch {
    pub(crate) fn start() -> Result<Self> {
        Ok(Self {
            signature_us: machine::signature_micros(SIGNATURES)?,
            ticks: Ticks::read()?,
        })
    }

    pub(crate) fn stop(self) -> Result<Condition> {
        Ok(Condition {
            load: machine::load_average().parse()?,
            stolen_percent: Ticks::read()?.stolen_since(&self.ticks),
            signature_us: self.signature_us,
        })
    }
}

/// Describes the least and most of all samples; None without any.
pub(crate) fn describe(all: &[&Condition]) -> Option<String> {
    all.first()?;
    let range = |value: fn(&Condition) -> f64| {
        let values = all.iter().map(|condition| value(condition));
        let bounds = (f64::MAX, f64::MIN);
        let (least, most) = values.fold(bounds, |(least, most), value| {
            (value.min(least), value.max(most))
        });
        format!("{least:.1} to {most:.1}")
    };
    Some(format!(
        "Machine during the samples: load average {}, {} % of its time stolen, {} µs for a P-256 \
         signature on the client's core.",
        range(|condition| condition.load),
        range(|condition| condition.stolen_percent),
        range(|condition| condition.signature_us),
    ))
}

/// Time of all cores since the machine's start, in ticks of the kernel.
#[derive(Debug, PartialEq)]
struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    fn read() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        Self::parse(&text).context("/proc/stat has no line of all cores")
    }

    /// Parses the first line: user, nice, system, idle, iowait, irq, softirq, steal. Guests,
    /// which follow, count as user already.
    fn parse(text: &str) -> Option<Self> {
        let numbers = text.strip_prefix("cpu ")?.lines().next()?;
        let numbers = numbers
            .split_whitespace()
            .map_while(|word| word.parse().ok());
        let numbers: Vec<u64> = numbers.take(8).collect();
        Some(Self {
            all: numbers.iter().sum(),
            stolen: *numbers.get(7)?,
        })
    }

    fn stolen_since(&self, before: &Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        let stolen = self.stolen.saturating_sub(before.stolen);
        100.0 * stolen as f64 / all as f64
    }
}

/// Some 20 ms.
const SIGNATURES: u32 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_part_of_all_time() {
        let parse = |text| Ticks::parse(text).unwrap();
        let before = parse("cpu  10 0 10 70 0 0 0 10 5 5\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
        let (all, stolen) = (100, 10);
        assert_eq!(before, Ticks { all, stolen });
        let after = parse("cpu  60 0 10 90 0 0 0 40 5 5\n");
        assert_eq!(after.stolen_since(&before), 30.0);
        assert_eq!(before.stolen_since(&before), 0.0);
        assert_eq!(Ticks::parse("cpu  1 2 3\n"), None);
    }

    #[test]
    fn a_description_has_the_least_and_the_most() {
        let condition = |load| Condition {
            load,
            stolen_percent: 0.0,
            signature_us: 20.0,
        };
        let all = [condition(1.5), condition(0.5)];
        let text = describe(&all.each_ref()).unwrap();
        assert!(
            text.contains("load average 0.5 to 1.5, 0.0 to 0.0 %"),
            "{text}"
        );
        assert_eq!(describe(&[]), None);
    }
}
