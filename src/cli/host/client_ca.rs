//! Client CAs on the command line: arguments and output.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use sekisho_certs::{ClientCa, HostRecord};
use serde::Serialize;

use crate::cli::host::read_input;
use crate::terminal::failure::Result;

/// Client CA to set, and whether clients may come without a certificate; none of them leaves
/// it as it is.
#[derive(Debug, clap::Args)]
pub(crate) struct ClientCaArgs {
    /// Demand a client certificate that a CA in this PEM file issued; '-' reads
    /// standard input
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Serve clients without a certificate, too; --client-ca without it takes that back
    #[arg(long)]
    client_ca_optional: bool,
    /// Demand no client certificate
    #[arg(long, conflicts_with_all = ["client_ca", "client_ca_optional"])]
    no_client_ca: bool,
}

/// Client CA as the arguments choose it.
pub(super) enum Chosen {
    /// That of the record stays; clients may come without a certificate if `optional`.
    Kept { optional: bool },
    Set { ca: Arc<ClientCa>, optional: bool },
    None,
}

impl ClientCaArgs {
    /// Returns whether standard input is read.
    pub(super) fn reads_input(&self) -> bool {
        self.client_ca.as_deref() == Some(Path::new("-"))
    }

    /// Returns the choice, with the client CA read and checked. Standard input can be read
    /// only once.
    pub(super) fn chosen(&self) -> Result<Chosen> {
        let optional = self.client_ca_optional;
        let Some(path) = &self.client_ca else {
            return Ok(match self.no_client_ca {
                true => Chosen::None,
                false => Chosen::Kept { optional },
            });
        };
        let option = || format!("--client-ca {}", path.display());
        let bytes = read_input(path, MOST).with_context(option)?;
        let ca = ClientCa::check(&bytes).with_context(option)?;
        let ca = Arc::new(ca);
        Ok(Chosen::Set { ca, optional })
    }
}

impl Chosen {
    /// Changes a record.
    pub(super) fn apply(&self, record: &mut HostRecord) -> Result<()> {
        let tls = &mut record.tls;
        match self {
            Self::Kept { optional: false } => {}
            Self::Kept { optional: true } if tls.client_ca.is_none() => {
                let why = "the host has no client CA; give one with --client-ca";
                bail!("--client-ca-optional: {why}");
            }
            Self::Kept { optional: true } => tls.client_optional = true,
            Self::Set { ca, optional } => {
                tls.client_ca = Some(Arc::clone(ca));
                tls.client_optional = *optional;
            }
            Self::None => (tls.client_ca, tls.client_optional) = (None, false),
        }
        Ok(())
    }
}

/// JSON form of a certificate of a client CA.
#[derive(Serialize)]
pub(super) struct View {
    /// Subject name; its serial number if that is empty.
    pub(super) subject: String,
    /// SHA-256 of the certificate, hexadecimal.
    pub(super) sha256: String,
}

impl View {
    /// Returns one for each certificate.
    pub(super) fn all(ca: &ClientCa) -> Vec<Self> {
        let certificates = ca.certificates();
        let named = ca.subjects().into_iter().zip(&certificates);
        named
            .map(|(subject, der)| Self {
                subject,
                sha256: HEXLOWER.encode(digest::digest(&digest::SHA256, der).as_ref()),
            })
            .collect()
    }
}

/// A byte more than [`ClientCa::check`] reads.
const MOST: u64 = (1 << 20) + 1;
