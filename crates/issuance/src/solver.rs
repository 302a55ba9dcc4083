//! Ways to prove control of a name to a CA (RFC 8555, section 8).

pub mod dns01;
