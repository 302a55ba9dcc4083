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
        self.if_known(done.await)
    }

    /// Returns the URL of the account that this key has; none if the CA knows none.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn account_url(&self, key: &ForeignKey) -> Result<Option<String>, Error> {
        let done = async {
            let url = self.endpoints().await?.new_account;
            let own = json!({ "jwk": key.jwk() });
            let answer = self.post(&url, key, own, br#"{"onlyReturnExisting":true}"#).await?;
            let location = answer.headers().get(LOCATION);
            let location = location.and_then(|location| location.to_str().ok());
            let missing = || Fault::Malformed("the account has no URL".to_owned());
            location.map(str::to_owned).ok_or_else(missing)
        };
        self.if_known(done.await)
    }

    /// Gives the account with this URL another key, PKCS#8 on P-256 (RFC 8555, section
    /// 7.3.5). The old one is worth nothing from then on.
    ///
    /// # Errors
    /// [`Error`]; the change may have happened if there is no answer.
    pub async fn change_key(&self, url: &str, old: &ForeignKey, new: &Secret) -> Result<(), Error> {
        let done = async {
            let new = ForeignKey::of_der(new.expose()).ok_or_else(unsigned)?;
            let unsupported = || Fault::Unsupported("change of keys".to_owned());
            let to = self.endpoints().await?.key_change.ok_or_else(unsupported)?;
            let payload = json!({ "account": url, "oldKey": old.jwk() }).to_string();
            let inner = json!({ "jwk": new.jwk(), "url": to });
            let inner = new.sign(inner, payload.as_bytes()).ok_or_else(unsigned)?;
            self.post(&to, old, json!({ "kid": url }), &inner).await
        };
        let done = done.await.map(drop);
        done.map_err(|fault| fault.at(&self.name, "changing the key of the account"))
    }

    fn if_known<T>(&self, done: Result<T, Fault>) -> Result<Option<T>, Error> {
        match done {
            Ok(found) => Ok(Some(found)),
            Err(fault) if fault.is_one_of(&["accountDoesNotExist"]) => Ok(None),
            Err(fault) => Err(fault.at(&self.name, "asking for the account of the key")),
        }
    }

    /// Sends a request that this key signs, with a fresh nonce.
    async fn post(
        &self,
        url: &str,
        key: &ForeignKey,
        mut protected: Value,
        payload: &[u8],
    ) -> Result<Response<Bytes>, Fault> {
        let malformed = |error: http::Error| Fault::Malformed(error.to_string());
        let request = Request::head(self.endpoints().await?.new_nonce).body(Full::default());
        let answer = self.transport.send(request.map_err(malformed)?).await?;
        let nonce = answer.headers().get(&REPLAY_NONCE);
        let nonce = nonce.and_then(|nonce| nonce.to_str().ok());
        protected["nonce"] = nonce.into();
        protected["url"] = url.into();
        let body = Bytes::from(key.sign(protected, payload).ok_or_else(unsigned)?);
        let request = Request::post(url).header(CONTENT_TYPE, "application/jose+json");
        let request = request.body(Full::new(body)).map_err(malformed)?;
        let answer = self.transport.send(request).await?;
        refusal(&answer).map_or(Ok(answer), Err)
    }
}

fn unsigned() -> Fault {
    Fault::Malformed("the key of the account can't sign".to_owned())
}
