//! Client CAs on the command line: arguments and output.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
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

impl ClientCaArgs {
    /// Returns whether standard input is read.
    pub(super) fn reads_input(&self) -> bool {
        self.client_ca.as_deref() == Some(Path::new("-"))
    }

    /// Returns the chosen client CA, read and checked; None if none was chosen,
    /// Some(None) for none. Standard input can be read only once.
    pub(super) fn chosen(&self) -> Result<Option<Option<Arc<ClientCa>>>> {
        let Some(path) = &self.client_ca else {
            return Ok(self.no_client_ca.then_some(None));
        };
        let option = || format!("--client-ca {}", path.display());
        let bytes = read_input(path, MOST).with_context(option)?;
        let ca = ClientCa::check(&bytes).with_context(option)?;
        Ok(Some(Some(Arc::new(ca))))
    }

    /// Changes a record to what was chosen.
    pub(super) fn apply(
        &self,
        chosen: Option<&Option<Arc<ClientCa>>>,
        record: &mut HostRecord,
    ) -> Result<()> {
        let tls = &mut record.tls;
        if let Some(ca) = chosen {
            tls.client_ca.clone_from(ca);
            tls.client_optional = false;
        }
        if self.client_ca_optional {
            let why = "the host has no client CA; give one with --client-ca";
            ensure!(tls.client_ca.is_some(), "--client-ca-optional: {why}");
            tls.client_optional = true;
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
