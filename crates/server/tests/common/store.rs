//! Records for the store of a test.

use sekisho_certs::{
    Clock, CredentialId, Found, HostPattern, HostRecord, KeyType, OpenKey, Secret, Site,
    StoredCredential,
};
use sekisho_testkit::{Key, Pair};

/// Makes a record of this pattern with these credentials.
pub fn host(pattern: &str, pairs: &[(&Pair, Key)]) -> Found<OpenKey> {
    let mut record = HostRecord::new(HostPattern::parse(pattern).unwrap());
    let mut credentials = Vec::new();
    for (pair, key) in pairs {
        let key_type = match key {
            Key::P256 | Key::P384 => KeyType::Ecdsa,
            Key::Ed25519 => KeyType::Ed25519,
            Key::Rsa2048 | Key::Rsa4096 => KeyType::Rsa,
        };
        let id = CredentialId::fresh(&Clock::System);
        record.references.set(key_type, Some(id));
        credentials.push(StoredCredential {
            id,
            version: 1,
            key_type,
            chain: pair.chain.clone(),
            key: OpenKey::unproved(Secret::new(pair.key_der().secret_der().to_vec())),
            not_before: 0,
            not_after: i64::MAX,
            renew_at: None,
        });
    }
    record.site = Some(Site {
        format: 1,
        json: format!(r#"{{"redirect":"https://served.example/{{host}}/{pattern}"}}"#).into(),
    });
    Found {
        record,
        credentials,
        shadowed: true,
        fresh_for: None,
    }
}
