//! Turns of first certificates, spaced per tenant.

use std::collections::HashMap;
use std::sync::Mutex;

use sekisho_certs::{Tenant, lock};

use crate::schedule::first_turn;

/// Last turn that this process has given to each tenant. Each server spaces for
/// itself: with n of them a tenant has n times the share, as every tenant has.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<Tenant, i64>>);

impl Turns {
    /// Returns the next turn of a tenant. `now` is in Unix seconds.
    pub(super) fn next(&self, tenant: &Tenant, now: i64) -> i64 {
        let mut turns = lock(&self.0);
        if turns.len() >= MAX_TENANTS {
            turns.retain(|_, turn| *turn > now);
        }
        if turns.len() >= MAX_TENANTS {
            // All have names that wait: nobody has an advantage that is not given to all.
            turns.clear();
        }
        let turn = first_turn(now, turns.get(tenant).copied());
        turns.insert(tenant.clone(), turn);
        turn
    }
}

/// Some 100 bytes each.
const MAX_TENANTS: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_with_many_names_does_not_stand_before_one_with_few() {
        let turns = Turns::default();
        let [many, few] = ["many", "few"].map(|name| Tenant::parse(name).unwrap());
        let last = (0..50_000).map(|_| turns.next(&many, 1000)).last().unwrap();
        assert_eq!(turns.next(&few, 1000), 1000);
        assert!(turns.next(&few, 1000) < last);
    }
}
