//! Accounts that another tool has made, taken over by their keys.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{Request, Response};
use http_body_util::Full;
use instant_acme::Key;
use rustls_pki_types::PrivatePkcs8KeyDer;
use sekisho_certs::credential::Secret;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Account, ForeignKey};
use crate::acme::ca::Ca;
use crate::acme::error::{Error, Fault};
use crate::acme::exchange::{Exchange, refusal};
use crate::acme::nonces::REPLAY_NONCE;

impl Ca {
    /// Returns the URL of the account that this key has; none if the CA knows none.
    ///
    /// # Errors
    /// [`Fault::Malformed`] also for an account that has ended.
    pub async fn account_url(&self, key: &ForeignKey) -> Result<Option<String>, Error> {
        let done = self.find(key).await;
        done.map_err(|fault| fault.at(&self.name, "asking for the account of the key"))
    }

    /// Returns the account that this key, PKCS#8 on P-256, has. Its contact is not known.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn account_of(&self, key: &Secret) -> Result<Account, Error> {
        let done = async {
            let der = PrivatePkcs8KeyDer::from(key.expose()).clone_key();
            let key = (Key::from_pkcs8_der(der.clone_key())?, der.into());
            let (exchange, _) = Exchange::new(&self.transport);
            let builder = instant_acme::Account::builder_with_http(exchange);
            let known = builder.from_key(key, self.directory().to_owned()).await;
            let (account, credentials) = known?;
            Account::of(self, account.id(), Vec::new(), &credentials)
        };
        let done = done.await;
        done.map_err(|fault| fault.at(&self.name, "asking for the account of the key"))
    }

    /// Gives the account with this URL another key, PKCS#8 on P-256 (RFC 8555, section
    /// 7.3.5). The old one is worth nothing from then on.
    ///
    /// # Errors
    /// [`Error`]; the change may have happened if there is no answer.
    pub async fn change_key(&self, url: &str, old: &ForeignKey, new: &Secret) -> Result<(), Error> {
        let done = self.change(url, old, new).await;
        done.map_err(|fault| fault.at(&self.name, "changing the key of the account"))
    }

    async fn find(&self, key: &ForeignKey) -> Result<Option<String>, Fault> {
        #[derive(Deserialize)]
        struct Found {
            status: Option<String>,
        }
        let url = self.endpoints().await?.new_account;
        let payload = br#"{"onlyReturnExisting":true}"#;
        let jwk = key.jwk().ok_or_else(unsigned)?;
        let own = json!({ "jwk": jwk });
        let answer = match self.post(&url, key, own, payload).await {
            Err(fault) if fault.is_one_of(&["accountDoesNotExist"]) => return Ok(None),
            answer => answer?,
        };
        let found: Found = serde_json::from_slice(answer.body())?;
        if let Some(status) = found.status.filter(|status| status != "valid") {
            return Err(Fault::Malformed(format!("the account is {status}")));
        }
        let location = answer.headers().get(LOCATION);
        let location = location.and_then(|location| location.to_str().ok());
        let missing = || Fault::Malformed("the account has no URL".to_owned());
        location.map(|url| Some(url.to_owned())).ok_or_else(missing)
    }

    async fn change(&self, url: &str, old: &ForeignKey, new: &Secret) -> Result<(), Fault> {
        let new = ForeignKey::of_der(new.expose()).ok_or_else(unsigned)?;
        let unsupported = || Fault::Unsupported("change of keys".to_owned());
        let to = self.endpoints().await?.key_change.ok_or_else(unsupported)?;
        let payload = json!({ "account": url, "oldKey": old.jwk() }).to_string();
        let inner = json!({ "jwk": new.jwk(), "url": to });
        let inner = new.sign(inner, payload.as_bytes()).ok_or_else(unsigned)?;
        self.post(&to, old, json!({ "kid": url }), &inner).await?;
        Ok(())
    }

    /// Sends a request that this key signs; once more if the CA has forgotten the nonce.
    async fn post(
        &self,
        url: &str,
        key: &ForeignKey,
        own: Value,
        payload: &[u8],
    ) -> Result<Response<Bytes>, Fault> {
        let transport = &self.transport;
        let mut is_last = false;
        loop {
            let mut protected = own.clone();
            protected["url"] = url.into();
            protected["nonce"] = self.nonce().await?.into();
            let body = key.sign(protected, payload).ok_or_else(unsigned)?;
            let request = Request::post(url).header(CONTENT_TYPE, JOSE);
            let request = request.body(Full::new(Bytes::from(body)));
            let request = request.map_err(|error| Fault::Malformed(format!("{url:?}: {error}")))?;
            let mut answer = transport.send(request).await?;
            transport.nonces.put(answer.headers_mut());
            match refusal(&answer) {
                Some(fault) if fault.is_one_of(&["badNonce"]) && !is_last => {
                    transport.nonces.forget();
                    is_last = true;
                }
                Some(fault) => return Err(fault),
                None => return Ok(answer),
            }
        }
    }

    async fn nonce(&self) -> Result<String, Fault> {
        let kept = self.transport.nonces.next().await;
        let nonce = match kept {
            Some(nonce) => Some(nonce),
            None => {
                let url = self.endpoints().await?.new_nonce;
                let request = Request::head(url).body(Full::default());
                let request = request.map_err(|error| Fault::Malformed(error.to_string()))?;
                let mut answer = self.transport.send(request).await?;
                answer.headers_mut().remove(&REPLAY_NONCE)
            }
        };
        let nonce = nonce.as_ref().and_then(|nonce| nonce.to_str().ok());
        let missing = || Fault::Malformed("it has no nonce".to_owned());
        nonce.map(str::to_owned).ok_or_else(missing)
    }
}

fn unsigned() -> Fault {
    Fault::Malformed("the key of the account can't sign".to_owned())
}

const JOSE: &str = "application/jose+json";
