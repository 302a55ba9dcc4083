//! The condition `ask`: an endpoint of the operator says yes or no.

use std::path::Path;

use bytes::Bytes;
use http::{HeaderMap, Request, Uri};
use http_body_util::Full;
use rustls::RootCertStore;
use sekisho_certs::{HostPattern, Tenant};
use sekisho_https::{HttpsClient, Timeouts, roots};

use super::decision::No;
use crate::setting_error::SettingError;

/// Endpoint that is asked with `?domain=NAME`. Redirects are not followed, and
/// bodies not read.
#[derive(Debug)]
pub(super) struct Ask {
    client: HttpsClient,
    /// URL up to the name.
    prefix: String,
    /// Host and port, for errors.
    server: String,
}

impl Ask {
    /// Reads the roots; sends nothing.
    pub(super) fn new(url: &str, root: Option<&Path>) -> Result<Self, SettingError> {
        let wrong = |why: String| SettingError::new("ask", why);
        let uri = url.parse::<Uri>().ok();
        let uri = uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
        let not_usable = || wrong(format!("{url:?} is no http:// or https:// URL"));
        let uri = uri.ok_or_else(not_usable)?;
        let server = uri.authority().ok_or_else(not_usable)?.to_string();
        if server.contains('@') {
            return Err(wrong("a user and password are not sent".into()));
        }
        // A system without roots can ask over HTTP.
        let trusted = match uri.scheme_str() {
            Some("https") => roots::load(root, "ask_ca"),
            _ => Ok(RootCertStore::empty()),
        };
        let tls = trusted.and_then(|trusted| roots::client(trusted, None));
        let tls = tls.map_err(|why| SettingError::new("ask_ca", why))?;
        let separator = if uri.query().is_some() { '&' } else { '?' };
        Ok(Self {
            client: HttpsClient::new(tls, Timeouts::NEAR),
            // A parsed URI has no fragment.
            prefix: format!("{uri}{separator}domain="),
            server,
        })
    }

    /// Asks for a pattern: 2xx means yes, 4xx no, all else is a failure. Returns
    /// the tenant that the endpoint names.
    pub(super) async fn check(&self, pattern: &HostPattern) -> Result<Option<Tenant>, No> {
        let failed = |why: String| No::Failed(format!("{}: {why}", self.server).into());
        // Patterns need no escaping: letters, digits, '-', '_', '.' and '*' alone.
        let request =
            Request::get(format!("{}{pattern}", self.prefix)).body(Full::<Bytes>::default());
        let request = request.map_err(|error| failed(error.to_string()))?;
        let _permit = self.client.permit().await;
        let answer = self.client.send(&request).await.map_err(failed)?;
        let status = answer.status();
        if status.is_client_error() {
            let why = format!("{} answers {status}", self.server);
            return Err(No::Refused(why.into()));
        }
        if !status.is_success() {
            return Err(failed(format!("answers {status}")));
        }
        tenant(answer.headers()).map_err(failed)
    }
}

/// Reads `Sekisho-Tenant`; an empty field names nobody.
fn tenant(fields: &HeaderMap) -> Result<Option<Tenant>, String> {
    let Some(value) = fields.get(TENANT) else {
        return Ok(None);
    };
    let text = str::from_utf8(value.as_bytes()).map_err(|_| format!("{TENANT} is not UTF-8"))?;
    match text.trim() {
        "" => Ok(None),
        name => Tenant::parse(name)
            .map(Some)
            .map_err(|why| format!("{TENANT}: {why}")),
    }
}

const TENANT: &str = "sekisho-tenant";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_can_not_be_asked_is_refused() {
        for url in [
            "",
            "/check",
            "ftp://ask.example/",
            "ask.example/check",
            "https://",
            "http://user:password@ask.example/",
        ] {
            assert!(Ask::new(url, None).is_err(), "{url}");
        }
        let prefix = |url| Ask::new(url, None).unwrap().prefix;
        assert_eq!(prefix("http://a.example"), "http://a.example/?domain=");
        assert_eq!(
            prefix("http://a.example/x?k=1"),
            "http://a.example/x?k=1&domain="
        );
    }
}
