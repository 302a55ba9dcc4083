//! Renewal information (ARI, RFC 9773).

use std::time::Duration;

use instant_acme::CertificateIdentifier;
use rustls_pki_types::CertificateDer;

use super::ca::Ca;
use super::error::Fault;
use super::retry_after;
use crate::schedule::Window;

/// When a CA wants a certificate renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewalInfo {
    /// Window of renewal, which does not end before its start. One that is over means: at
    /// once.
    pub window: Window,
    /// Time until the CA wants to be asked again: one minute to one day (RFC 9773,
    /// section 4.3.2), six hours if it does not say.
    pub ask_again: Duration,
}

pub(super) async fn ask(ca: &Ca, leaf: &CertificateDer<'_>) -> Result<RenewalInfo, Fault> {
    let url = ca.endpoints().await?.renewal_info;
    let url = url.ok_or_else(|| Fault::Unsupported("renewal information (ARI)".into()))?;
    let id = identifier(leaf)?;
    let answer = ca.transport.get(&format!("{url}/{id}")).await?;
    let info: instant_acme::RenewalInfo = serde_json::from_slice(answer.body())?;
    let window = info.suggested_window;
    let (start, end) = (window.start.unix_timestamp(), window.end.unix_timestamp());
    if end < start {
        return Err(Fault::Malformed("the window ends before it begins".into()));
    }
    let ask_again = retry_after::of(answer.headers()).unwrap_or(USUAL);
    Ok(RenewalInfo {
        window: Window { start, end },
        ask_again: ask_again.clamp(SHORTEST, LONGEST),
    })
}

/// Returns the name of a certificate that renewal information and `replaces` use
/// (RFC 9773, section 4.1).
pub(super) fn identifier(
    leaf: &CertificateDer<'_>,
) -> Result<CertificateIdentifier<'static>, Fault> {
    let id = CertificateIdentifier::try_from(leaf);
    id.map(CertificateIdentifier::into_owned)
        .map_err(|why| Fault::Unsupported(format!("name for this certificate: {why}")))
}

const SHORTEST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
const USUAL: Duration = Duration::from_secs(6 * 60 * 60);
