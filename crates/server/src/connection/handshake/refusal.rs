//! Refusals: what a client gets whose handshake fails, and what is counted.

use rustls::AlertDescription::{
    self, IllegalParameter, InternalError, MissingExtension, UnexpectedMessage, UnrecognisedName,
};
use rustls::server::AcceptedAlert;
use sekisho_certs::Absence;
use tokio::time::error::Elapsed;

use crate::lookup::ask::Unfound;
use crate::observe::metrics::{HandshakeResult, LookupResult};
use crate::tls::Broken;
use crate::tls::hello::Unfit;
use crate::tls::refuse::{SPEAKS_HTTPS, alert};

/// Answer to a client whose handshake is refused, and the result that is
/// counted.
pub(super) struct Refusal {
    pub(super) bytes: Vec<u8>,
    pub(super) result: HandshakeResult,
}

impl Refusal {
    pub(super) fn new(description: AlertDescription, result: HandshakeResult) -> Self {
        let bytes = alert(description).to_vec();
        Self { bytes, result }
    }

    pub(super) fn no_name(tls13: bool) -> Self {
        // RFC 8446, section 9.2; TLS 1.2 has no such alert.
        let alert = if tls13 {
            MissingExtension
        } else {
            UnrecognisedName
        };
        Self::new(alert, HandshakeResult::NoSni)
    }

    pub(super) fn failed(overloaded: bool) -> Self {
        let result = if overloaded {
            HandshakeResult::Overloaded
        } else {
            HandshakeResult::Failed
        };
        Self::new(InternalError, result)
    }
}

impl From<Absence> for Refusal {
    fn from(absence: Absence) -> Self {
        let result = match absence {
            Absence::NoHost => HandshakeResult::AbsentHost,
            Absence::NoCredential => HandshakeResult::NoCredential,
            Absence::Disabled => HandshakeResult::Disabled,
        };
        Self::new(UnrecognisedName, result)
    }
}

impl From<Unfound> for Refusal {
    fn from(Unfound { absence, lookup }: Unfound) -> Self {
        use LookupResult::{OverBudget, Overloaded};

        let failed = || Self::failed(matches!(lookup, Overloaded | OverBudget));
        absence.map_or_else(failed, Self::from)
    }
}

impl From<Unfit> for Refusal {
    fn from(unfit: Unfit) -> Self {
        use HandshakeResult::Malformed;

        let (bytes, result) = match unfit {
            Unfit::PlainHttp => (SPEAKS_HTTPS.to_vec(), HandshakeResult::PlainHttp),
            Unfit::NotTls => (Vec::new(), HandshakeResult::NotTls),
            Unfit::NoHello => return Self::new(UnexpectedMessage, Malformed),
            // As OpenSSL answers.
            Unfit::TooLong => return Self::new(IllegalParameter, Malformed),
            Unfit::Malformed(alert, error) => {
                tracing::debug!(%error, "malformed ClientHello");
                // rustls gives no alert for a message out of turn.
                if alert.is_empty() {
                    return Self::new(UnexpectedMessage, Malformed);
                }
                (alert, Malformed)
            }
            Unfit::Gone => (Vec::new(), HandshakeResult::Aborted),
        };
        Self { bytes, result }
    }
}

impl From<(rustls::Error, AcceptedAlert)> for Refusal {
    fn from((error, mut alert): (rustls::Error, AcceptedAlert)) -> Self {
        let mut bytes = Vec::new();
        alert.write_all(&mut bytes).expect("a Vec takes all");
        let result = blame(&error);
        Self { bytes, result }
    }
}

/// Returns the result that an exchange counts as, if it failed.
pub(super) fn failure(result: &Result<Result<(), Broken>, Elapsed>) -> Option<HandshakeResult> {
    match result {
        Ok(Ok(())) => None,
        Ok(Err(Broken::Io(_))) => Some(HandshakeResult::Aborted),
        Ok(Err(Broken::Tls(error))) => Some(blame(error)),
        Err(_) => Some(HandshakeResult::TimedOut),
    }
}

/// Returns the result that an error of rustls counts as: whose fault it is.
fn blame(error: &rustls::Error) -> HandshakeResult {
    match error {
        rustls::Error::AlertReceived(_) => HandshakeResult::PeerAlert,
        rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_) => {
            HandshakeResult::ClientCertificate
        }
        rustls::Error::PeerIncompatible(_) => HandshakeResult::Incompatible,
        rustls::Error::NoApplicationProtocol => HandshakeResult::NoApplicationProtocol,
        rustls::Error::General(_) => HandshakeResult::Failed,
        _ => HandshakeResult::Malformed,
    }
}
