//! Accounts that another tool has made, taken over by their keys.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{Request, Response};
use http_body_util::Full;
use instant_acme::Key;
use rustls_pki_types::PrivatePkcs8KeyDer;
use sekisho_certs::credential::Secret;
use serde_json::{Value, json};

use super::{Account, ForeignKey};
use crate::acme::ca::Ca;
use crate::acme::error::{Error, Fault};
use crate::acme::exchange::{Exchange, refusal};
use crate::acme::nonces::REPLAY_NONCE;

impl Ca {
    /// Returns the account that this key, PKCS#8 on P-256, has; none if the CA knows none.
    /// Its contact is not known.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn account_of(&self, key: &Secret) -> Result<Option<Account>, Error> {
        let done = async {
            let der = PrivatePkcs8KeyDer::from(key.expose()).clone_key();
            let key = (Key::from_pkcs8_der(der.clone_key())?, der.into());
            let (exchange, _) = Exchange::new(&self.transport);
            let builder = instant_acme::Account::builder_with_http(exchange);
            let known = builder.from_key(key, self.directory().to_owned()).await;
            let (account, credentials) = known?;
            Account::of(self, account.id(), Vec::new(), &credentials)
        };
        self.if_known(done.await, "asking for the account of the key")
    }

    /// Gives the account of a key another one, PKCS#8 on P-256 (RFC 8555, section 7.3.5). The
    /// old one is worth nothing from then on. None if the CA knows no account of the old one.
    ///
    /// # Errors
    /// [`Error`]; the change may have happened if there is no answer.
    pub async fn change_key(&self, old: &ForeignKey, new: &Secret) -> Result<Option<()>, Error> {
        let done = async {
            let endpoints = self.endpoints().await?;
            let unsupported = || Fault::Unsupported("change of keys".to_owned());
            let change = endpoints.key_change.ok_or_else(unsupported)?;
            let new = ForeignKey::of_der(new.expose()).ok_or_else(unsigned)?;
            let (own, to) = (json!({ "jwk": old.jwk() }), &endpoints.new_account);
            let known = self.post(to, old, own, br#"{"onlyReturnExisting":true}"#);
            let known = known.await?;
            let url = known.headers().get(LOCATION);
            let url = url.and_then(|url| url.to_str().ok());
            let payload = json!({ "account": url, "oldKey": old.jwk() }).to_string();
            let inner = json!({ "jwk": new.jwk(), "url": change });
            let inner = new.sign(inner, payload.as_bytes()).ok_or_else(unsigned)?;
            let own = json!({ "kid": url });
            self.post(&change, old, own, &inner).await.map(drop)
        };
        self.if_known(done.await, "changing the key of the account")
    }

    fn if_known<T>(&self, done: Result<T, Fault>, step: &str) -> Result<Option<T>, Error> {
        match done {
            Ok(found) => Ok(Some(found)),
            Err(fault) if fault.is_one_of(&["accountDoesNotExist"]) => Ok(None),
            Err(fault) => Err(fault.at(&self.name, step)),
        }
    }

    /// Sends a request that this key signs, with a fresh nonce: again if that was not known
    /// where it arrived (RFC 8555, section 6.5).
    async fn post(
        &self,
        url: &str,
        key: &ForeignKey,
        mut protected: Value,
        payload: &[u8],
    ) -> Result<Response<Bytes>, Fault> {
        let new_nonce = self.endpoints().await?.new_nonce;
        protected["url"] = url.into();
        let mut again = 0..REPETITIONS;
        loop {
            let nonce = self.transport.get(&new_nonce).await?;
            let nonce = nonce.headers().get(&REPLAY_NONCE);
            protected["nonce"] = nonce.and_then(|nonce| nonce.to_str().ok()).into();
            let body = key.sign(protected.clone(), payload).ok_or_else(unsigned)?;
            let request = Request::post(url).header(CONTENT_TYPE, "application/jose+json");
            let request = request.body(Full::new(Bytes::from(body)));
            let request = request.map_err(|error| Fault::Malformed(error.to_string()))?;
            let answer = self.transport.send(request).await?;
            match refusal(&answer) {
                None => return Ok(answer),
                Some(fault) if fault.is_one_of(&["badNonce"]) && again.next().is_some() => {}
                Some(fault) => return Err(fault),
            }
        }
    }
}

fn unsigned() -> Fault {
    Fault::Malformed("the key of the account can't sign".to_owned())
}

/// Requests that follow one whose nonce was refused, as instant-acme sends them.
const REPETITIONS: usize = 2;
