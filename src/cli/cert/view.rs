//! Shows credentials, without their keys.

use std::io::{self, Write};

use sekisho_certs::{HostPattern, StoredCredential};
use serde::Serialize;

use crate::cli::cert::{Leaf, joined};
use crate::cli::lineage;
use crate::terminal::output::{name, rfc3339};

/// JSON form of a credential.
#[derive(Serialize)]
pub(super) struct View<'a> {
    id: String,
    #[serde(rename = "type")]
    key_type: &'static str,
    names: Vec<String>,
    issuer: String,
    serial: String,
    sha256: String,
    not_before: String,
    not_after: String,
    version: u64,
    /// Source that brought it, if nothing changed it since.
    origin: Option<String>,
    /// The lineage, if there is one; lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lineage: Option<lineage::View<'a>>,
}

impl View<'_> {
    pub(super) fn new<K>(credential: &StoredCredential<K>, leaf: &Leaf) -> Self {
        Self {
            id: credential.id.to_string(),
            key_type: credential.key_type.as_str(),
            names: leaf.names.iter().map(HostPattern::to_string).collect(),
            issuer: leaf.issuer.clone(),
            serial: leaf.serial.clone(),
            sha256: leaf.sha256.clone(),
            not_before: rfc3339(credential.not_before),
            not_after: rfc3339(credential.not_after),
            version: credential.version,
            origin: credential.origin.as_ref().map(|one| one.source.to_string()),
            lineage: None,
        }
    }
}

/// Columns of a list.
pub(super) const COLUMNS: [&str; 4] = ["ID", "TYPE", "UNTIL", "NAMES"];

/// Returns the cells of a list, for [`COLUMNS`].
pub(super) fn cells<K>(credential: &StoredCredential<K>, leaf: &Leaf) -> Vec<String> {
    vec![
        credential.id.to_string(),
        credential.key_type.as_str().into(),
        rfc3339(credential.not_after),
        joined(&leaf.names),
    ]
}

/// Writes all fields for people, with the first hosts that refer to the credential. One
/// host more than [`HOSTS_SHOWN`] says that there are more.
pub(super) fn write<K>(
    out: &mut impl Write,
    credential: &StoredCredential<K>,
    leaf: &Leaf,
    hosts: &[HostPattern],
) -> io::Result<()> {
    writeln!(out, "credential  {}", credential.id)?;
    writeln!(out, "type        {}", credential.key_type.as_str())?;
    for covered in &leaf.names {
        writeln!(out, "name        {}", name(covered))?;
    }
    writeln!(out, "issuer      {}", leaf.issuer)?;
    writeln!(out, "serial      {}", leaf.serial)?;
    writeln!(out, "sha256      {}", leaf.sha256)?;
    writeln!(out, "valid from  {}", rfc3339(credential.not_before))?;
    writeln!(out, "valid until {}", rfc3339(credential.not_after))?;
    for host in hosts.iter().take(HOSTS_SHOWN) {
        writeln!(out, "used by     {}", name(host))?;
    }
    if hosts.len() > HOSTS_SHOWN {
        writeln!(out, "            and more")?;
    }
    Ok(())
}

/// Hosts that are shown: one screen.
pub(super) const HOSTS_SHOWN: usize = 20;
/// Column of the values.
pub(super) const COLUMN: usize = 12;
