//! TLS configurations of clients: trusted authorities and client certificates.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// A configuration that believes these authorities, without protocols (ALPN).
/// `identity` names the files of the client's certificate and key.
///
/// # Errors
/// Names a file that can't be used, or says what the library objects to.
pub fn client(
    roots: RootCertStore,
    identity: Option<&(PathBuf, PathBuf)>,
) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = builder.with_root_certificates(roots);
    let Some((chain, key)) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| at(key, &error))?;
    builder
        .with_client_auth_cert(certificates(chain)?, private)
        .map_err(|error| at(chain, &error))
}

/// Reads the authorities of a PEM file, or those that the system trusts.
///
/// # Errors
/// Names the file and what is wrong with it, or `key`, which could name one.
pub fn load(file: Option<&Path>, key: &str) -> Result<RootCertStore, String> {
    match file {
        Some(file) => of_file(file),
        None => of_system(key),
    }
}

fn of_file(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for (certificate, number) in certificates(file)?.into_iter().zip(1..) {
        let added = roots.add(certificate);
        added.map_err(|error| {
            at(
                file,
                &format!("certificate {number} can't be used: {error}"),
            )
        })?;
    }
    Ok(roots)
}

/// Reads the certificates of a PEM file: at least one.
///
/// # Errors
/// Names the file and what is wrong with it.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(file).map_err(|error| at(file, &error))?;
    if pem.len() > MAX_FILE {
        return Err(at(file, &"it is over 4 MiB: no file of certificates"));
    }
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let all = all.map_err(|error| at(file, &error))?;
    if all.is_empty() {
        return Err(at(file, &"holds no certificate (BEGIN CERTIFICATE)"));
    }
    Ok(all)
}

/// Reads a regular file, up to a byte more than [`MAX_FILE`].
fn read(file: &Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO would wait for a writer.
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("is no regular file"));
    }
    let mut pem = Vec::new();
    let most = MAX_FILE as u64 + 1;
    File::open(file)?.take(most).read_to_end(&mut pem)?;
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

fn at(file: &Path, what: &dyn Display) -> String {
    format!("{}: {what}", file.display())
}

/// All public roots are a quarter of a megabyte.
const MAX_FILE: usize = 4 << 20;

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
