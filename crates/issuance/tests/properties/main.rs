//! Properties of the schedule.

mod schedule;
