//! Shows host records.

use std::io::{self, Write};

use sekisho_certs::{HostRecord, StoredCredential, TlsVersion, printable};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::host::{client_ca, site};
use crate::cli::lineage;
use crate::terminal::output::{self, rfc3339};

/// JSON form of a record.
#[derive(Serialize)]
pub(super) struct View<'a> {
    name: &'a str,
    /// Pattern with U-labels.
    unicode: String,
    tenant: &'a str,
    site: Option<Value>,
    min_tls: &'static str,
    /// Certificates of the client CA; null if clients are asked for no certificate.
    client_ca: Option<Vec<client_ca::View>>,
    /// Clients may come without a certificate.
    client_ca_optional: bool,
    disabled: bool,
    /// Parts of the record that can't be read: it is not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// Credential ids by key type.
    credentials: Map<String, Value>,
    version: u64,
    /// Lineages; lists leave them out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lineages: Option<Vec<lineage::View<'a>>>,
}

impl<'a> View<'a> {
    /// Makes the form; with the hashes of passwords if `secrets` are asked for.
    pub(super) fn new(record: &'a HostRecord, secrets: bool) -> Self {
        let credentials = record.references.iter();
        Self {
            name: record.pattern.as_str(),
            unicode: record.pattern.to_unicode(),
            tenant: record.tenant.as_str(),
            site: record.site.as_ref().map(|site| site::shown(site, secrets)),
            min_tls: record.tls.min.as_str(),
            client_ca: record.tls.client_ca.as_deref().map(client_ca::View::all),
            client_ca_optional: record.tls.client_optional,
            disabled: record.disabled,
            error: record.unreadable.as_deref(),
            credentials: credentials
                .map(|(key_type, id)| (key_type.as_str().into(), id.to_string().into()))
                .collect(),
            version: record.version,
            lineages: None,
        }
    }
}

/// Formats a line of a list: name, tenant, key types, site.
pub(super) fn line(record: &HostRecord, secrets: bool) -> String {
    let types = record.references.iter();
    let types: Vec<_> = types.map(|(key_type, _)| key_type.as_str()).collect();
    let types = match types.is_empty() {
        true => "no certificate".into(),
        false => types.join("+"),
    };
    let tenant = tenant(record);
    let site = record.site.as_ref().map(|site| site::line(site, secrets));
    let site = site.unwrap_or_else(|| "default site".into());
    let disabled = if record.disabled { ", disabled" } else { "" };
    let name = output::name(&record.pattern);
    // Texts of sites and errors may have line breaks, and end the line of the list.
    printable(&match &record.unreadable {
        Some(why) => format!("{name}  not served: {why}"),
        None => format!("{name}  {tenant}  {types}  {site}{disabled}"),
    })
}

/// Writes all fields for people.
pub(super) fn write<K>(
    out: &mut impl Write,
    (record, secrets): (&HostRecord, bool),
    credentials: &[StoredCredential<K>],
) -> io::Result<()> {
    writeln!(out, "host      {}", output::name(&record.pattern))?;
    if let Some(why) = &record.unreadable {
        writeln!(out, "error     not served: {}", printable(why))?;
    }
    writeln!(out, "tenant    {}", tenant(record))?;
    let site = match &record.site {
        Some(site) => printable(&site::line(site, secrets)),
        None => "as [site] in the configuration".to_owned(),
    };
    writeln!(out, "site      {site}")?;
    let tls = match record.tls.min {
        TlsVersion::Tls12 => "1.2 and 1.3",
        TlsVersion::Tls13 => "1.3",
    };
    writeln!(out, "tls       {tls}")?;
    let client_ca = record.tls.client_ca.as_deref().map(client_ca::View::all);
    let optional = match record.tls.client_optional {
        true => " (optional)",
        false => "",
    };
    for client_ca::View { subject, sha256 } in client_ca.into_iter().flatten() {
        writeln!(out, "client ca {subject}, SHA-256 {sha256}{optional}")?;
    }
    let disabled = if record.disabled { "yes" } else { "no" };
    writeln!(out, "disabled  {disabled}")?;
    for credential in credentials {
        let key_type = credential.key_type.as_str();
        let until = rfc3339(credential.not_after);
        writeln!(out, "{key_type:<8}  {}, valid until {until}", credential.id)?;
    }
    if credentials.is_empty() {
        writeln!(out, "          no certificate")?;
    }
    writeln!(out, "version   {}", record.version)
}

/// Returns the tenant for people; a dash for the operator.
fn tenant(record: &HostRecord) -> &str {
    match record.tenant.as_str() {
        "" => "-",
        name => name,
    }
}

/// Column of the values.
pub(super) const COLUMN: usize = 10;
