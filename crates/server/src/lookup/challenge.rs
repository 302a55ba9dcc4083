//! Challenges of CAs (RFC 8555, section 8): finds the answer to one, as a
//! certificate or as a response, on behalf of a client.

mod certificate;
mod token;

use std::sync::Arc;

use http::{Request, Response};
use rustls::ServerConfig;
use sekisho_certs::{ChallengeKind, Challenges, HostName, KeyAuthorization, LookupError};
use tokio::time::{Instant, timeout_at};

use crate::limits::budget::Prefix;
use crate::lookup::ask::Hosts;
use crate::site::body::Body;
use certificate::Certificates;

/// Answers to challenges, and what is needed to send them.
pub(crate) struct Answers {
    challenges: Arc<Challenges>,
    certificates: Certificates,
    /// Hosts whose budget loads are charged to, and whose time limit those over HTTP have.
    hosts: Arc<Hosts>,
}

/// Returns the response to a request for the key authorization of a token (RFC
/// 8555, section 8.3), over HTTP or HTTPS: CAs follow redirects.
///
/// Other requests get None. The future returns None for an unknown token, and if the
/// answer can't be read: a tenant who gets certificates too has tokens on the host's own
/// site.
pub(crate) fn respond<B>(
    request: &Request<B>,
    answers: Option<&Answers>,
    prefix: Prefix,
) -> Option<impl Future<Output = Option<Response<Body>>>> {
    let (answers, token) = (answers?, token::of(request)?);
    // The box is awaited by the caller: other requests then have no room for the answer,
    // and move no absent one.
    Some(Box::pin(answers.over_http(token, prefix)))
}

impl Answers {
    /// Makes a key for the certificates. Loads are charged as those of `hosts` are.
    pub(crate) fn new(challenges: Arc<Challenges>, hosts: Arc<Hosts>) -> Self {
        Self {
            challenges,
            certificates: Certificates::new(),
            hosts,
        }
    }

    /// Returns the TLS configuration that answers a challenge for `name` (RFC
    /// 8737, section 3); None if there is no such challenge.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub(crate) async fn over_tls(
        &self,
        name: &HostName,
        prefix: Prefix,
        deadline: Instant,
    ) -> Result<Option<Arc<ServerConfig>>, LookupError> {
        let kind = ChallengeKind::TlsAlpn01;
        let answer = self.find(kind, name.as_str(), prefix, deadline);
        let answer = answer.await?;
        Ok(answer.map(|answer| self.certificates.config(name, &answer)))
    }

    /// Returns the response that answers a challenge of this token; None if there
    /// is no such challenge, or if it can't be read.
    async fn over_http(&self, token: &str, prefix: Prefix) -> Option<Response<Body>> {
        let deadline = Instant::now() + self.hosts.lookup_limit;
        let kind = ChallengeKind::Http01;
        let answer = self.find(kind, token, prefix, deadline);
        match answer.await {
            Ok(answer) => answer.map(|answer| token::response(&answer)),
            Err(error) => {
                self.hosts.log_limits.challenge_failed(token, &error);
                None
            }
        }
    }

    /// Finds the answer for `key`, a host name or a token:
    ///
    /// 1. in memory, which costs nothing;
    /// 2. in the catalog, with a permit of the prefix. An unknown key is charged
    ///    like the load of an absent name.
    ///
    /// # Errors
    /// [`LookupError`], if the prefix gets no permit or the catalog gives no
    /// answer before `deadline`.
    async fn find(
        &self,
        kind: ChallengeKind,
        key: &str,
        prefix: Prefix,
        deadline: Instant,
    ) -> Result<Option<KeyAuthorization>, LookupError> {
        if let Some(own) = self.challenges.own(kind, key) {
            return Ok(Some(own));
        }
        let read = async {
            let permit = self.hosts.budget.admit(prefix, deadline).await?;
            let (challenges, key) = (Arc::clone(&self.challenges), key.to_owned());
            // A task of its own keeps the permit: a client that disconnects must
            // not free it early.
            let read = tokio::spawn(async move {
                let answer = challenges.answer(kind, &key).await;
                if matches!(answer, Ok(None)) {
                    permit.was_absent();
                }
                answer
            });
            Ok(read.await.map_err(|_| LookupError::BrokenOff)??)
        };
        let read = timeout_at(deadline, read).await;
        read.unwrap_or(Err(LookupError::Late))
    }
}
