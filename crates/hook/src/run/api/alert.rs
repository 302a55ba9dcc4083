//! Alerts of TLS by name (RFC 8446, section 6).

use mlua::Value;

/// Returns the number of an alert that refuses a handshake; none for others.
pub(super) fn parse(value: &Value) -> Option<u8> {
    match value {
        Value::String(name) => {
            let name = name.to_str().ok()?;
            let named = ALERTS.iter().find(|(alert, _)| *alert == &*name);
            named.map(|(_, number)| *number)
        }
        Value::Integer(number) => {
            let number = u8::try_from(*number).ok()?;
            let numbered = ALERTS.iter().find(|(_, alert)| *alert == number);
            numbered.map(|(_, number)| *number)
        }
        _ => None,
    }
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
