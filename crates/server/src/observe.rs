//! Access log and metrics, which the operator reads.

pub mod access_log;
pub mod line_writer;
pub mod metrics;
