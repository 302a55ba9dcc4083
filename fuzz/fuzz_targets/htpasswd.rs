//! Lines of htpasswd, as `host set --auth` takes them, and hashes of passwords.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sekisho_server::fuzzing::verify_password;
use sekisho_server::site::login;

fuzz_target!(|text: &str| {
    let (line, password) = text.split_once('\n').unwrap_or((text, ""));
    match login(line) {
        Ok(Some((user, hash))) => {
            assert!(!user.is_empty() && !user.contains(':'));
            // The other kinds take too long for many runs.
            if ["$apr1$", "{SHA}"]
                .iter()
                .any(|kind| hash.starts_with(kind))
            {
                let _ = verify_password(hash, password.as_bytes());
            }
        }
        Ok(None) => {}
        Err(error) => {
            let error = error.to_string();
            assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
        }
    }
});
