//! The chains that a CA offers for one certificate.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// Tells whether the topmost certificate of a chain, PEM, was issued by the authority of this
/// common name.
pub(super) fn leads_to(chain: &[u8], authority: &str) -> bool {
    let Some(Ok(top)) = CertificateDer::pem_slice_iter(chain).last() else {
        return false;
    };
    let Ok((_, top)) = X509Certificate::from_der(&top) else {
        return false;
    };
    let mut names = top.issuer().iter_common_name();
    names.any(|name| name.as_str() == Ok(authority))
}

#[cfg(test)]
mod tests {
    use sekisho_testkit::{Key, TestCa};

    use super::*;

    #[test]
    fn the_topmost_issuer_counts() {
        let chain = TestCa::new().issue(&["a.example"], Key::P256).chain_pem();
        assert!(leads_to(chain.as_bytes(), "sekisho test root"));
        assert!(!leads_to(chain.as_bytes(), "sekisho test intermediate"));
        assert!(!leads_to(b"", "sekisho test root"));
    }
}
