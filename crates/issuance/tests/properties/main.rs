//! Properties of the schedule and of the quotas.

mod quota;
mod schedule;
