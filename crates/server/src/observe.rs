//! What an operator sees: the access log and the metrics.

pub mod access_log;
pub mod line_writer;
pub mod metrics;
