//! Alerts of TLS by name (RFC 8446, section 6).

use mlua::Value;

/// Returns the number of an alert that refuses a handshake; none for others.
pub(super) fn parse(value: &Value) -> Option<u8> {
    let found = ALERTS.iter().find(|(name, number)| match value {
        Value::String(given) => given.as_bytes() == name.as_bytes(),
        Value::Integer(given) => *given == i64::from(*number),
        _ => false,
    });
    found.map(|(_, number)| *number)
}

pub(super) const UNRECOGNIZED_NAME: u8 = 112;

const ALERTS: [(&str, u8); 7] = [
    ("handshake_failure", 40),
    ("illegal_parameter", 47),
    ("access_denied", 49),
    ("protocol_version", 70),
    ("insufficient_security", 71),
    ("internal_error", 80),
    ("unrecognized_name", UNRECOGNIZED_NAME),
];
