//! Tests what stays known of a service over hand-overs.

use serde_json::Value;

use super::Handed;

#[test]
fn a_service_keeps_its_begin() {
    let handed = Handed::start("");
    let began = || {
        let ran = handed.sandbox.ok(&["status", "--json"]);
        let status: Value = serde_json::from_str(&ran).expect("JSON");
        let (pid, handovers) = (&status["pid"], &status["handovers"]);
        (handovers["service_began"].clone(), pid.clone())
    };
    let first = began();
    assert!(first.0.is_string(), "{}", first.0);
    assert!(!handed.run("status").out.contains("the service since"));
    handed.reload(2, "", "");
    handed.reload(3, "", "");
    let (since, pid) = began();
    assert_eq!(since, first.0);
    assert_ne!(pid, first.1);
    let shown = format!(", the service since {}", since.as_str().expect("a time"));
    let ran = handed.run("status");
    assert!(ran.out.contains(&shown), "{}", ran.out);
}
