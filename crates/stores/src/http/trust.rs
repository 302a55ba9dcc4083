//! Which certificates of the endpoint are believed.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use sekisho_certs::store::{Result, StoreError};

/// A client that verifies against the certificates of this file alone, or
/// against those that the system trusts.
pub(super) fn client(ca: Option<&Path>) -> Result<ClientConfig> {
    with(match ca {
        Some(file) => of_file(file)?,
        None => of_system()?,
    })
}

/// A client that trusts nobody, for `http://`.
pub(super) fn nobody() -> Result<ClientConfig> {
    with(RootCertStore::empty())
}

fn with(roots: RootCertStore) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Refused(error.to_string().into()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn of_file(file: &Path) -> Result<RootCertStore> {
    let refused = |why: String| StoreError::Refused(format!("{}: {why}", file.display()).into());
    let pem = read(file).map_err(|error| refused(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for (certificate, number) in CertificateDer::pem_slice_iter(&pem).zip(1..) {
        let added = certificate.map_err(|error| error.to_string());
        let added = added.and_then(|der| roots.add(der).map_err(|error| error.to_string()));
        added.map_err(|why| refused(format!("certificate {number} can't be used: {why}")))?;
    }
    if roots.is_empty() {
        return Err(refused("holds no certificate (BEGIN CERTIFICATE)".into()));
    }
    Ok(roots)
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut pem = Vec::new();
    File::open(file)?.take(MAX_FILE + 1).read_to_end(&mut pem)?;
    if pem.len() as u64 > MAX_FILE {
        return Err(io::Error::other(
            "it is over 4 MiB: no file of certificates",
        ));
    }
    Ok(pem)
}

/// Where the system keeps them, or where `SSL_CERT_FILE` and `SSL_CERT_DIR`
/// say.
fn of_system() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some old root that can't be parsed must not keep all others away.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(ToString::to_string);
        return Err(StoreError::Refused(
            format!(
                "the system has no root certificates{}{}; install ca-certificates, or name a file \
                 in [store] ca",
                if why.is_some() { ": " } else { "" },
                why.unwrap_or_default()
            )
            .into(),
        ));
    }
    Ok(roots)
}

/// All public roots are a quarter of a megabyte.
const MAX_FILE: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use std::fs;

    use sekisho_testkit::TestCa;

    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let refused = |says: &str| {
            let error = client(Some(&file)).unwrap_err().to_string();
            assert!(error.contains("ca.pem") && error.contains(says), "{error}");
        };
        refused("No such file");
        fs::write(&file, "nothing").unwrap();
        refused("holds no certificate");
        let root = TestCa::new().root_pem();
        fs::write(&file, &root).unwrap();
        client(Some(&file)).unwrap();
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        fs::write(&file, root + broken).unwrap();
        refused("certificate 2");
        fs::write(&file, vec![b'#'; (4 << 20) + 1]).unwrap();
        refused("over 4 MiB");
    }
}
