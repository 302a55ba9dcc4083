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
    /// Page of the suspension; null if the host is not suspended.
    suspended: Option<Value>,
    /// Source that brought the host, if nothing changed it since.
    origin: Option<&'a str>,
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
            suspended: record.suspended.as_ref().map(site::document),
            origin: record.origin.as_ref().map(|origin| &*origin.source),
            error: record.unreadable.as_deref(),
            credentials: credentials
                .map(|(key_type, id)| (key_type.as_str().into(), id.to_string().into()))
                .collect(),
            version: record.version,
            lineages: None,
        }
    }
}

/// Columns of a list.
pub(super) const COLUMNS: [&str; 4] = ["NAME", "TENANT", "TYPES", "SITE"];

/// Returns the cells of a list, for [`COLUMNS`].
pub(super) fn cells(record: &HostRecord, secrets: bool) -> Vec<String> {
    let name = output::name(&record.pattern);
    if let Some(why) = &record.unreadable {
        return vec![name, "-".into(), "-".into(), format!("not served: {why}")];
    }
    let types = record.references.iter();
    let types: Vec<_> = types.map(|(key_type, _)| key_type.as_str()).collect();
    let types = match types.is_empty() {
        true => "no certificate".into(),
        false => types.join("+"),
    };
    let site = record.site.as_ref().map(|site| site::line(site, secrets));
    let mut site = site.unwrap_or_else(|| "default site".into());
    if record.disabled {
        site.push_str(", disabled");
    }
    if record.suspended.is_some() {
        site.push_str(", suspended");
    }
    vec![name, tenant(record).into(), types, site]
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
    if let Some(page) = &record.suspended {
        writeln!(out, "suspended {}", printable(&site::line(page, true)))?;
    }
    if let Some(origin) = &record.origin {
        writeln!(out, "origin    {}", printable(&origin.source))?;
    }
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
