//! TLS on the way to a server.

use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::url::TlsFiles;
use crate::roots;

/// Reads the files once; an error names the file.
pub(super) fn config(files: &TlsFiles) -> Result<Arc<ClientConfig>, String> {
    let builder = roots::client(roots::load(files.roots.as_deref(), "ca=")?)?;
    let config = match &files.client {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let chain = certificates(cert)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| at(key, &error))?;
            let config = builder.with_client_auth_cert(chain, key);
            config.map_err(|error| at(cert, &error))?
        }
    };
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).map_err(|error| at(file, &error))?;
    let all: Result<Vec<_>, _> = read.collect();
    match all {
        Ok(all) if all.is_empty() => Err(at(file, &"there is no certificate in it")),
        Ok(all) => Ok(all),
        Err(error) => Err(at(file, &error)),
    }
}

fn at(file: &Path, what: &dyn std::fmt::Display) -> String {
    format!("{}: {what}", file.display())
}
