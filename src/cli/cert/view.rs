//! Shows credentials, without their keys.

use std::io::{self, Write};

use sekisho_certs::{Clock, HostPattern, Lineage, StoredCredential};
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
    /// The lineage, if there is one; lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    lineage: Option<lineage::View<'a>>,
}

impl<'a> View<'a> {
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
            lineage: None,
        }
    }

    pub(super) fn with_lineage<S, K>(
        mut self,
        lineage: Option<&'a Lineage<S>>,
        credential: &StoredCredential<K>,
    ) -> Self {
        let (now, own) = (Clock::System.now(), std::slice::from_ref(credential));
        self.lineage = lineage.map(|lineage| lineage::View::new(lineage, own, now));
        self
    }
}

/// Formats a line of a list.
pub(super) fn line<K>(credential: &StoredCredential<K>, leaf: &Leaf) -> String {
    format!(
        "{}  {}  until {}  {}",
        credential.id,
        credential.key_type.as_str(),
        rfc3339(credential.not_after),
        joined(&leaf.names)
    )
}

/// Writes all fields for people, with the first hosts that refer to the
/// credential.
pub(super) fn write<K>(
    out: &mut impl Write,
    credential: &StoredCredential<K>,
    leaf: &Leaf,
    hosts: &Hosts,
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
    for host in &hosts.first {
        writeln!(out, "used by     {}", name(host))?;
    }
    if hosts.more {
        writeln!(out, "            and more")?;
    }
    Ok(())
}

/// Hosts that refer to a credential.
pub(super) struct Hosts {
    /// The first hosts, ordered by name.
    pub(super) first: Vec<HostPattern>,
    /// True if there are further hosts.
    pub(super) more: bool,
}

/// Column of the values.
pub(super) const COLUMN: usize = 12;
