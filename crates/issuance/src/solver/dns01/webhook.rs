//! A server that changes records, in the convention of lego's provider `httpreq`:
//! `POST URL/present` and `POST URL/cleanup` with `{"fqdn": …, "value": …}`,
//! without its mode `RAW`.

use std::fmt;
use std::path::Path;

use bytes::Bytes;
use data_encoding::BASE64;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Request, Uri};
use http_body_util::Full;
use sekisho_certs::credential::Secret;
use sekisho_https::{HttpsClient, Timeouts, roots};

use super::error::Fault;
use super::{Action, Presented};

/// Server that writes records. Any status from 200 to 299 means that it did. It
/// must be idempotent: it may be asked to remove what is not there.
#[derive(Debug)]
pub struct Webhook {
    url: String,
    login: Option<HeaderValue>,
    client: HttpsClient,
}

impl Webhook {
    /// Takes a URL of `https://` or `http://`, to which `/present` and `/cleanup` are
    /// appended, and user and password (RFC 7617). Reads the roots, PEM, that the server's
    /// certificate is verified with; none means the system's. Asks nothing.
    ///
    /// # Errors
    /// [`Fault::Setting`] names the key.
    pub fn new(
        url: &str,
        root: Option<&Path>,
        login: Option<&(String, Secret)>,
    ) -> Result<Self, Fault> {
        let wrong = |key, why| Fault::Setting { key, why };
        let url = url.trim_end_matches('/');
        let is_url = url.parse().is_ok_and(|uri: Uri| {
            let authority = uri
                .authority()
                .is_some_and(|host| !host.as_str().contains('@'));
            matches!(uri.scheme_str(), Some("https" | "http")) && authority && uri.query().is_none()
        });
        if !is_url {
            // A URL with a password must not reach the log.
            let why = "it is no https:// or http:// URL without user and query".to_owned();
            return Err(wrong("webhook", why));
        }
        let tls = roots::load(root, "ca");
        let tls = tls.and_then(|roots| roots::client(roots, None));
        let tls = tls.map_err(|why| wrong("ca", why))?;
        Ok(Self {
            url: url.to_owned(),
            login: login.map(basic),
            client: HttpsClient::new(tls, Timeouts::FAR),
        })
    }

    pub(super) async fn write(&self, action: Action, presented: &Presented) -> Result<(), Fault> {
        let url = format!("{}/{}", self.url, action.as_str());
        let record = serde_json::json!({ "fqdn": presented.fqdn, "value": presented.value });
        let mut request = Request::post(&url)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, AGENT);
        if let Some(login) = &self.login {
            request = request.header(AUTHORIZATION, login);
        }
        let request = request.body(Full::new(Bytes::from(record.to_string())));
        let request = request.expect("the URL was parsed");
        let _permit = self.client.permit().await;
        let answer = self.client.send(&request).await;
        let answer = answer.map_err(|why| Fault::Unreachable(format!("webhook {url}: {why}")))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(Fault::Refused(format!(
                "webhook {url}: it answered {status}"
            ))),
        }
    }
}

impl fmt::Display for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "webhook {}", self.url)
    }
}

fn basic((user, password): &(String, Secret)) -> HeaderValue {
    let login = [user.as_bytes(), b":", password.expose()].concat();
    let value = format!("Basic {}", BASE64.encode(&login));
    let mut value = HeaderValue::from_str(&value).expect("base64 is text");
    value.set_sensitive(true);
    value
}

const AGENT: &str = concat!("sekisho/", env!("CARGO_PKG_VERSION"));
