//! Records for the store of a test.

use std::sync::Arc;

use sekisho_certs::{
    Clock, CredentialId, Found, HostPattern, HostRecord, KeyType, Obtained, OpenKey, Secret, Site,
    StoredCredential, Tenant,
};
use sekisho_testkit::{Issuer, Key, Pair, Scripted};

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
            origin: None,
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

/// Makes a record without a credential.
pub fn bare(pattern: &str, tenant: &str) -> Found<OpenKey> {
    let mut bare = host(pattern, &[]);
    bare.record.tenant = Tenant::parse(tenant).unwrap();
    bare
}

/// Makes an issuance that stores this certificate for each host with a record,
/// once it is released.
pub fn issuer(store: &Arc<Scripted>, pair: Pair) -> Arc<Issuer> {
    let store = Arc::clone(store);
    Arc::new(Issuer::held(move |name, record| {
        let mut issued = host(name.as_str(), &[(&pair, Key::P256)]);
        issued.record.tenant = record.expect("a record").tenant.clone();
        store.put(issued);
        Obtained::Stored
    }))
}
