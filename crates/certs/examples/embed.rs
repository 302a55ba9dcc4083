//! Embeds the lookup in a program: a store, what is made of each record, and
//! the two steps of an answer. Run: `cargo run -p sekisho-certs --example embed`
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::credential::Credential;
use sekisho_certs::store::{BoxFuture, Result};
use sekisho_certs::{
    Answer, Cached, CredentialId, Found, HostName, HostRecord, Lookup, LookupSettings, NeverObtain,
    OpenKey, Published, Store, StoreError,
};

/// PEM bundles by host, each with a number of its own.
#[derive(Debug)]
struct Bundles(HashMap<&'static str, (u64, String)>);

impl Store for Bundles {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<OpenKey>>> {
        Box::pin(async move {
            let Some((number, pem)) = self.0.get(name.as_str()) else {
                return Ok(Answer::absent());
            };
            let credential = Credential::parse_stored_bundle(pem.as_bytes())
                .map_err(|why| StoreError::Corrupt(why.to_string().into()))?
                .into_stored(CredentialId::from_u64(*number));
            let mut record = HostRecord::new(name.into());
            record
                .references
                .set(credential.key_type, Some(credential.id));
            Ok(Answer::found(Found {
                record,
                credentials: vec![credential],
                shadowed: false,
                fresh_for: None,
            }))
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let issued = rcgen::generate_simple_self_signed(["a.example".into()])?;
    let pem = issued.cert.pem() + &issued.signing_key.serialize_pem();
    let store = Arc::new(Bundles([("a.example", (1, pem))].into()));
    let settings = LookupSettings {
        memory: 64 << 20,
        fresh: Duration::from_secs(60),
        absent: Duration::from_secs(5),
    };
    let lookup = Lookup::new(store, &settings, Arc::new(NeverObtain), |host| {
        // Called once per load. A rustls resolver gives this key to handshakes.
        let value = Arc::clone(host.credentials[0].certified());
        Ok(Published { value, weight: 0 })
    });
    for name in ["a.example", "b.example", "a.example"] {
        let name = HostName::parse(name)?;
        let (outcome, from) = match lookup.cached(&name) {
            Cached::Hit(outcome) => (outcome, "the cache"),
            Cached::InFlight(wait) => (wait.await, "a load in flight"),
            Cached::Miss => (lookup.load(&name).await, "the store"),
        };
        println!("{name}: {outcome:?}, from {from}");
    }
    Ok(())
}
