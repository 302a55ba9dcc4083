//! Results of a TLS handshake.

use rustls::pki_types::CertificateDer;
use rustls::server::ServerConnection;
use rustls::{HandshakeKind, ProtocolVersion};

/// Results of a TLS handshake, for fields and logs; the default for plain HTTP.
#[derive(Debug, Default)]
pub(crate) struct Negotiated {
    pub(crate) version: Option<ProtocolVersion>,
    pub(crate) resumed: bool,
    /// Certificate that the client proved to own, in DER.
    pub(crate) client_certificate: Option<Box<CertificateDer<'static>>>,
}

impl From<&ServerConnection> for Negotiated {
    fn from(tls: &ServerConnection) -> Self {
        let own =
            |chain: &[CertificateDer<'_>]| Some(Box::new(chain.first()?.clone().into_owned()));
        Self {
            version: tls.protocol_version(),
            resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
            client_certificate: tls.peer_certificates().and_then(own),
        }
    }
}
