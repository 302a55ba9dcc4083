/// Figures of a simulated year.
pub(super) struct Figures {
    /// Orders of each hour.
    pub(super) orders: Vec<u32>,
    /// Attempts while the CA was out of reach.
    pub(super) failed: u64,
    /// Certificates that were not renewed in time.
    pub(super) expired: u64,
    /// Hosts that were due and waited at the year's end.
    pub(super) left_over: usize,
    /// Least share of a lifetime that was left at a renewal.
    pub(super) least_left: f64,
    /// Seconds until the last of one tenant's new names had its certificate.
    pub(super) bulk: Option<i64>,
    /// Seconds until the other tenant's single name had it.
    pub(super) other_tenant: Option<i64>,
}

impl Figures {
    pub(super) fn new() -> Self {
        Self {
            orders: Vec::new(),
            failed: 0,
            expired: 0,
            left_over: 0,
            least_left: 1.0,
            bulk: None,
            other_tenant: None,
        }
    }

    /// Returns the orders per hour that this percentage of all hours stays within.
    pub(super) fn percentile(&self, percent: usize) -> u32 {
        let mut sorted = self.orders.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        sorted.get(last * percent / 100).copied().unwrap_or(0)
    }

    /// Returns the busiest hour of each day.
    pub(super) fn days(&self) -> Vec<u32> {
        let busiest = |day: &[u32]| day.iter().max().copied().unwrap_or(0);
        self.orders.chunks(24).map(busiest).collect()
    }
}
