//! A CA: where it is, whom its clients trust, and what it offers.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls_pki_types::CertificateDer;

use super::directory::{Directory, Meta, is_https};
use super::error::{Error, Fault};
use super::exchange::Transport;
use super::nonces::Nonces;
use super::renewal_info::{self, RenewalInfo};
use sekisho_https::{HttpsClient, Timeouts, roots};

/// CA; cheap to clone. All clones share connections, which belong to the runtime
/// that sends the requests.
#[derive(Clone, Debug)]
pub struct Ca {
    pub(super) name: Arc<str>,
    pub(super) transport: Arc<Transport>,
}

/// Where a CA is.
#[derive(Clone, Debug)]
pub struct CaSettings {
    /// Name in the configuration, for errors.
    pub name: String,
    /// URL of its directory, `https://`.
    pub directory: String,
    /// File with the roots, PEM, that its HTTPS certificate is verified with; none
    /// means the system's.
    pub root: Option<PathBuf>,
    /// Bound for one request with its answer.
    pub deadline: Duration,
}

impl CaSettings {
    /// Bound for a request that fits most CAs: some take ten seconds to issue.
    pub const DEADLINE: Duration = Duration::from_secs(30);

    /// Makes the settings of a CA that is known by name; none for another name.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        Some(Self {
            name: name.to_owned(),
            directory: directory_of(name)?.to_owned(),
            root: None,
            deadline: Self::DEADLINE,
        })
    }
}

/// Returns the directory's URL of a CA that is known by name.
#[must_use]
pub fn directory_of(name: &str) -> Option<&'static str> {
    let known = BUILTIN.iter().find(|(known, _)| *known == name);
    known.map(|(_, url)| *url)
}

/// Lists the names of the CAs that are known.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|(name, _)| *name)
}

impl Ca {
    /// Reads the roots; sends nothing.
    ///
    /// # Errors
    /// [`Fault::Setting`] names `directory` or `ca`.
    pub fn new(settings: &CaSettings) -> Result<Self, Error> {
        let name = settings.name.as_str().into();
        let step = "using the CA";
        let wrong = |key, why| Fault::Setting { key, why }.at(&name, step);
        if !is_https(&settings.directory) {
            let why = format!("{:?} is no https:// URL", settings.directory);
            return Err(wrong("directory", why));
        }
        let tls = roots::load(settings.root.as_deref(), "ca");
        let tls = tls.and_then(|roots| roots::client(roots, None));
        let tls = tls.map_err(|why| wrong("ca", why))?;
        let trusted = settings.root.as_ref().map_or_else(
            || "the system's roots".to_owned(),
            |file| format!("ca = {:?}", file.display().to_string()),
        );
        let transport = Transport {
            client: HttpsClient::new(tls, Timeouts::FAR),
            directory: settings.directory.clone(),
            trusted,
            deadline: settings.deadline,
            read: Mutex::default(),
            nonces: Nonces::default(),
        };
        Ok(Self {
            name,
            transport: Arc::new(transport),
        })
    }

    /// Returns the name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the directory's URL, which names the CA for accounts.
    #[must_use]
    pub fn directory(&self) -> &str {
        &self.transport.directory
    }

    /// Returns what the CA says of itself. Asks it once an hour.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn meta(&self) -> Result<Meta, Error> {
        let directory = self.endpoints().await;
        let directory = directory.map_err(|fault| fault.at(&self.name, "reading its directory"))?;
        Ok(directory.meta)
    }

    /// Asks when a certificate should be renewed (RFC 9773); needs no account.
    ///
    /// # Errors
    /// [`Fault::Unsupported`] if the CA does not offer that.
    pub async fn renewal_info(&self, leaf: &CertificateDer<'_>) -> Result<RenewalInfo, Error> {
        let info = renewal_info::ask(self, leaf).await;
        info.map_err(|fault| fault.at(&self.name, "asking for renewal information"))
    }

    pub(super) async fn endpoints(&self) -> Result<Directory, Fault> {
        let json = self.transport.directory().await?;
        Directory::parse(&json)
    }
}

const BUILTIN: [(&str, &str); 4] = [
    (
        "letsencrypt",
        "https://acme-v02.api.letsencrypt.org/directory",
    ),
    (
        "letsencrypt-staging",
        "https://acme-staging-v02.api.letsencrypt.org/directory",
    ),
    ("zerossl", "https://acme.zerossl.com/v2/DV90"),
    ("google", "https://dv.acme-v02.api.pki.goog/directory"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_can_not_be_used_are_named() {
        let settings = |directory: &str, root: Option<&str>| CaSettings {
            name: "internal".into(),
            directory: directory.into(),
            root: root.map(PathBuf::from),
            deadline: CaSettings::DEADLINE,
        };
        let refused = |settings: &CaSettings| Ca::new(settings).unwrap_err().to_string();
        for directory in ["http://ca.example/dir", "ca.example", "https://", ""] {
            let error = refused(&settings(directory, None));
            let expected = format!("directory: {directory:?} is no https:// URL");
            assert!(error.ends_with(&expected), "{error}");
        }
        let error = refused(&settings("https://ca.example/dir", Some("/nowhere/ca.pem")));
        assert!(
            error.contains("internal") && error.contains("ca: /nowhere/ca.pem: No such file"),
            "{error}"
        );
    }

    #[test]
    fn known_cas_are_found_by_name() {
        for (name, url) in BUILTIN {
            assert_eq!(CaSettings::builtin(name).unwrap().directory, url);
        }
        assert!(CaSettings::builtin("letsencrypt2").is_none());
    }
}
