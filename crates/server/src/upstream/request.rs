//! Request on its way to an upstream: its head, changed in place, and its body, streamed.

pub(in crate::upstream) mod exchange;
pub(in crate::upstream) mod fields;
pub(in crate::upstream) mod head;
pub(in crate::upstream) mod loop_id;
pub(in crate::upstream) mod params;
pub(in crate::upstream) mod upload;
pub(in crate::upstream) mod whole;
