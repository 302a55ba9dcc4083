//! Paths of requests: what an upstream gets is what a rule has judged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sekisho_server::fuzzing::site_path;

fuzz_target!(|raw: &str| {
    let Some((matched, forwarded, has_slash)) = site_path(raw) else {
        return;
    };
    if raw == "*" {
        return;
    }
    assert!(matched.starts_with('/') && !matched.contains("//") && !matched.contains('\0'));
    assert!(forwarded.starts_with('/') && forwarded.bytes().all(|byte| byte.is_ascii_graphic()));
    assert!(!forwarded.contains(['?', '#', '\\']), "{forwarded}");
    for path in [&matched, &forwarded] {
        let mut segments = path.split('/');
        assert!(!segments.any(|name| matches!(name, "." | "..")), "{path}");
    }
    // An upstream that cleans the path once more finds nothing to change.
    let again = site_path(&forwarded).expect("it is clean");
    assert_eq!(again, (matched, forwarded, has_slash));
});
