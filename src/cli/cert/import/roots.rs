//! Root certificates that clients have: a leaf that one of them issued needs no
//! chain.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::anyhow;
use rustls::pki_types::CertificateDer;
use sekisho_https::roots;

use crate::terminal::failure::Result;

/// Roots of `--ca`, then the system's. The latter are read when the first leaf
/// needs them.
pub(crate) struct Roots {
    given: Vec<CertificateDer<'static>>,
    all: OnceLock<Vec<CertificateDer<'static>>>,
}

impl Roots {
    /// Loads the certificates of `--ca`.
    pub(super) fn load(file: Option<&Path>) -> Result<Self> {
        let given = file.map(roots::certificates).transpose();
        let given = given.map_err(|why| anyhow!("--ca {why}"))?;
        Ok(Self {
            given: given.unwrap_or_default(),
            all: OnceLock::new(),
        })
    }

    /// Makes an empty set: each chain must include its issuers.
    pub(crate) fn none() -> Self {
        Self {
            given: Vec::new(),
            all: OnceLock::from(Vec::new()),
        }
    }

    pub(super) fn all(&self) -> &[CertificateDer<'static>] {
        self.all.get_or_init(|| {
            // On a system without roots, every leaf needs its chain.
            let system = rustls_native_certs::load_native_certs().certs;
            [self.given.clone(), system].concat()
        })
    }
}
