//! Writes PEM (RFC 7468).

use anyhow::anyhow;
use rustls::pki_types::PrivateKeyDer;
use sekisho_certs::credential::write_pem;
use sekisho_certs::{Secret, StoredCredential};
use zeroize::Zeroizing;

use crate::terminal::failure::Result;

/// Writes the whole chain, leaf first.
pub(super) fn chain<K>(credential: &StoredCredential<K>) -> String {
    let mut text = String::new();
    for certificate in &credential.chain {
        write_pem(&mut text, "CERTIFICATE", certificate);
    }
    text
}

/// Writes a private key in its stored encoding.
pub(super) fn key(key: &Secret) -> Result<Zeroizing<String>> {
    let bytes = key.expose();
    let label = match PrivateKeyDer::try_from(bytes) {
        Ok(PrivateKeyDer::Pkcs8(_)) => "PRIVATE KEY",
        Ok(PrivateKeyDer::Sec1(_)) => "EC PRIVATE KEY",
        Ok(PrivateKeyDer::Pkcs1(_)) => "RSA PRIVATE KEY",
        _ => return Err(anyhow!("the stored private key has no known encoding")),
    };
    // The capacity covers the whole text: growing would leave copies of the
    // key.
    let mut text = Zeroizing::new(String::with_capacity(bytes.len() * 3 / 2 + ROOM_FOR_LABELS));
    write_pem(&mut text, label, bytes);
    Ok(text)
}

const ROOM_FOR_LABELS: usize = 80;

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for length in [0, 1, 2, 3, 47, 48, 49, 1000] {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 7 % 256) as u8).collect();
            let mut text = String::new();
            write_pem(&mut text, "CERTIFICATE", &bytes);
            assert!(text.lines().all(|line| line.len() <= 64), "{text}");
            let read = CertificateDer::from_pem_slice(text.as_bytes()).expect("PEM");
            assert_eq!(read.as_ref(), bytes);
        }
    }
}
