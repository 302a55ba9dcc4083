//! Authorities that a client of a store believes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// A configuration that believes these authorities, without protocols (ALPN).
///
/// # Errors
/// Says what the library objects to.
pub(crate) fn client(
    roots: RootCertStore,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots))
}

/// Reads the authorities of a PEM file, or those that the system trusts.
///
/// # Errors
/// Names the file and what is wrong with it, or `key`, which could name one.
pub(crate) fn load(file: Option<&Path>, key: &str) -> Result<RootCertStore, String> {
    match file {
        Some(file) => of_file(file).map_err(|why| format!("{}: {why}", file.display())),
        None => of_system(key),
    }
}

fn of_file(file: &Path) -> Result<RootCertStore, String> {
    let pem = read(file).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    for (certificate, number) in CertificateDer::pem_slice_iter(&pem).zip(1..) {
        let added = certificate.map_err(|error| error.to_string());
        let added = added.and_then(|der| roots.add(der).map_err(|error| error.to_string()));
        added.map_err(|why| format!("certificate {number} can't be used: {why}"))?;
    }
    if roots.is_empty() {
        return Err("holds no certificate (BEGIN CERTIFICATE)".into());
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

/// Reads what the system trusts, or what `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
fn of_system(key: &str) -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some old root that can't be parsed must not keep all others away.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(": {error}"));
        return Err(format!(
            "the system has no root certificates{}; install ca-certificates, or name a file in \
             {key}",
            why.unwrap_or_default()
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
            let error = load(Some(&file), "ca").unwrap_err();
            assert!(error.contains("ca.pem") && error.contains(says), "{error}");
        };
        refused("No such file");
        fs::write(&file, "nothing").unwrap();
        refused("holds no certificate");
        let root = TestCa::new().root_pem();
        fs::write(&file, &root).unwrap();
        assert_eq!(load(Some(&file), "ca").unwrap().len(), 1);
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        fs::write(&file, root + broken).unwrap();
        refused("certificate 2");
        fs::write(&file, vec![b'#'; (4 << 20) + 1]).unwrap();
        refused("over 4 MiB");
    }
}
