//! The resources that a process and its descendants use during a measurement.

use std::time::Duration;

use anyhow::Result;

use super::counters::{Counters, Support};
use sekisho_bench::accounting::CpuTime;

/// Running measurement.
pub(crate) struct Meter {
    root: u32,
    cpu: CpuTime,
    counters: Counters,
}

/// Resources used between two readings.
#[derive(Debug, Default)]
pub(crate) struct Used {
    pub(crate) cpu: Duration,
    /// Instructions and cycles, as far as the machine counts them.
    pub(crate) counted: Vec<(&'static str, f64)>,
}

impl Meter {
    pub(crate) fn start(root: u32, support: &Support) -> Result<Self> {
        Ok(Self {
            root,
            counters: support.start(root)?,
            cpu: CpuTime::read(root)?,
        })
    }

    pub(crate) fn stop(self) -> Result<Used> {
        Ok(Used {
            cpu: CpuTime::read(self.root)?.since(&self.cpu),
            counted: self.counters.read()?,
        })
    }
}
