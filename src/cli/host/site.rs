//! Sites on the command line: arguments and output.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use sekisho_certs::{HostRecord, Site, Tenant};
use sekisho_server::site::{self, MAX_DOCUMENT, SiteDocument, SiteError};
use serde_json::{Value, json};

use crate::cli::host::{passwords, read_input};
use crate::config::Config;
use crate::terminal::failure::{Result, Usage};

/// Site of a host.
#[derive(Debug, clap::Args)]
pub(crate) struct SiteArgs {
    #[command(flatten)]
    action: ActionArgs,
    /// Run the .php files of --root by this FastCGI server, such as unix:/run/php/{tenant}.sock
    #[arg(long, value_name = "URL", requires = "root")]
    fastcgi: Option<String>,
    /// Text of the answer with --status; '-' is standard input
    #[arg(long, value_name = "FILE", requires = "status")]
    text: Option<PathBuf>,
    /// Ask for the passwords of this file of htpasswd; '-' is standard input
    #[arg(
        long,
        value_name = "FILE",
        requires = "site",
        conflicts_with_all = ["document", "default_site"]
    )]
    auth: Option<PathBuf>,
}

/// At most one of the ways to answer requests.
#[derive(Debug, clap::Args)]
#[group(id = "site", multiple = false)]
struct ActionArgs {
    /// Answer as this JSON document says; '-' is standard input
    #[arg(long = "site", id = "document", value_name = "FILE")]
    document: Option<PathBuf>,
    /// Pass requests on to this server
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// Answer with the files of this folder; {host} stands for the name asked
    /// for, {tenant} for its owner
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Send clients to this URL; without a path there, theirs is kept
    #[arg(long, value_name = "URL")]
    redirect: Option<String>,
    /// Answer with this status, such as 503 or 451 for a suspended host
    #[arg(long, value_name = "CODE")]
    status: Option<u16>,
    /// Answer as [site] in the configuration says
    #[arg(long)]
    default_site: bool,
}

impl SiteArgs {
    /// Returns whether standard input is read.
    pub(super) fn reads_input(&self) -> bool {
        self.inputs() > 0
    }

    /// Returns how many of the files are standard input.
    fn inputs(&self) -> usize {
        let files = [&self.action.document, &self.text, &self.auth];
        let files = files.into_iter().flatten();
        files.filter(|file| *file == Path::new("-")).count()
    }

    /// Reads the files that are named, makes the document, and checks its keys.
    ///
    /// # Errors
    /// If a file can't be read, or a key is wrong.
    pub(super) fn read(&self) -> Result<Chosen> {
        if self.inputs() > 1 {
            let why = "standard input holds one file: give --text or --auth another";
            return Err(Usage(why.into()).into());
        }
        let action = &self.action;
        let mut document = if let Some(file) = &action.document {
            return Chosen::document(&text_of(file).context("--site")?);
        } else if let Some(url) = &action.upstream {
            json!({ "upstream": url })
        } else if let Some(root) = &action.root {
            let root = std::path::absolute(root).context("--root")?;
            let root = without_climbs(&root);
            let root = root
                .to_str()
                .context("--root: the folder's name is not UTF-8")?;
            match &self.fastcgi {
                Some(url) => json!({ "root": root, "fastcgi": url }),
                None => json!({ "root": root }),
            }
        } else if let Some(url) = &action.redirect {
            json!({ "redirect": url })
        } else if let Some(status) = action.status {
            match &self.text {
                Some(file) => json!({
                    "status": status,
                    "text": text_of(file).context("--text")?,
                }),
                None => json!({ "status": status }),
            }
        } else if action.default_site {
            return Ok(Chosen::Default);
        } else {
            return Ok(Chosen::Nothing);
        };
        if let Some(file) = &self.auth {
            document["auth"] = passwords::auth_of(file, &text_of(file).context("--auth")?)?;
        }
        Chosen::document(&document.to_string())
    }

    /// Returns the folder of `--root`, or the one above its first placeholder,
    /// if it is missing.
    pub(super) fn missing_folder(&self) -> Option<PathBuf> {
        let root = self.action.root.as_ref()?;
        let has_placeholder = |part: &Path| part.to_string_lossy().contains('{');
        let fixed = root.ancestors().find(|part| !has_placeholder(part))?;
        (!fixed.as_os_str().is_empty() && !fixed.is_dir()).then(|| fixed.to_owned())
    }
}

/// Site that a command chose.
#[derive(Debug)]
pub(super) enum Chosen {
    /// No site was named: the record keeps its own.
    Nothing,
    /// The site of the configuration.
    Default,
    /// A document that was read.
    Document(Document),
}

/// Document whose keys were checked.
#[derive(Debug)]
pub(super) struct Document {
    checked: SiteDocument,
    /// Its text, if digests stand for hashes of the host's present site.
    with_digests: Option<String>,
}

impl Document {
    fn parse(json: &str) -> Result<Self> {
        let with_digests = passwords::has_digests(json).then(|| json.to_owned());
        let checked = match &with_digests {
            Some(json) => SiteDocument::parse(&passwords::without_digests(json)),
            None => SiteDocument::parse(json),
        };
        Ok(Self {
            checked: checked.map_err(|error| usage(&error))?,
            with_digests,
        })
    }

    /// Makes the site of a tenant's host, whose present one may be named by digests.
    fn stored(&self, present: Option<&Site>, tenant: &Tenant) -> Result<Site> {
        let complete = self.complete(present)?;
        complete.site(tenant).map_err(|error| usage(&error))?;
        // Without the spaces of the file.
        let json = document(complete.stored()).to_string().into();
        let format = complete.stored().format;
        Ok(Site { format, json })
    }

    /// Returns the document with the hashes of the host's present site.
    fn complete(&self, present: Option<&Site>) -> Result<SiteDocument> {
        let Some(json) = &self.with_digests else {
            return Ok(self.checked.clone());
        };
        let mut found: Value = serde_json::from_str(json)?;
        passwords::restore(&mut found, present.map(document))?;
        let complete = SiteDocument::parse(&found.to_string());
        Ok(complete.map_err(|error| usage(&error))?)
    }
}

impl Chosen {
    fn document(json: &str) -> Result<Self> {
        Document::parse(json).map(Self::Document)
    }

    /// Checks what the servers of this configuration allow, before a store is
    /// created.
    pub(super) fn check(&self, config: &Config, tenant: Option<&Tenant>) -> Result<()> {
        let Self::Document(document) = self else {
            return Ok(());
        };
        // The record's own tenant is not known before the store is opened.
        let any = Tenant::parse("tenant").map_err(Usage)?;
        let site = document.checked.site(tenant.unwrap_or(&any));
        let site = site.map_err(|error| usage(&error))?;
        refuse(&site, config, tenant)
    }

    /// Returns whether the site names folders or servers, which `[sites]` bounds.
    pub(super) fn names_places(&self) -> bool {
        matches!(self, Self::Document(document) if document.checked.names_places())
    }

    /// Puts the site into a record. `before` is the record's earlier tenant.
    pub(super) fn apply(&self, record: &mut HostRecord, before: &Tenant) -> Result<()> {
        match self {
            Self::Nothing => {
                // A folder may depend on the tenant.
                let Some(site) = &record.site else {
                    return Ok(());
                };
                if site::Site::parse(site, before).is_ok() {
                    let site = site::Site::parse(site, &record.tenant);
                    site.map_err(|error| usage(&error))?;
                }
            }
            Self::Default => record.site = None,
            Self::Document(chosen) => {
                record.site = Some(chosen.stored(record.site.as_ref(), &record.tenant)?);
            }
        }
        Ok(())
    }
}

/// Reads the site of hosts that a command makes, and checks what the servers of this
/// configuration allow.
pub(in crate::cli) fn of_file(file: &Path, config: &Config, tenant: &Tenant) -> Result<Site> {
    let document = Document::parse(&text_of(file).context("--site")?)?;
    let site = document.stored(None, tenant)?;
    Chosen::Document(document).check(config, Some(tenant))?;
    Ok(site)
}

/// Checks what the servers of this configuration allow a record, once its tenant is known.
/// What was stored before is not judged.
pub(super) fn check_record(
    config: &Config,
    record: &HostRecord,
    before: Option<&HostRecord>,
) -> Result<()> {
    let is_known =
        |before: &HostRecord| (&before.tenant, &before.site) == (&record.tenant, &record.site);
    let changed = record.site.as_ref();
    let changed = changed.filter(|_| !before.is_some_and(is_known));
    // A stored document that can't be read stays as it is.
    let site = changed.and_then(|stored| site::Site::parse(stored, &record.tenant).ok());
    let Some(site) = site else { return Ok(()) };
    let own = record.pattern.as_str();
    let is_own = site.alias().is_some_and(|alias| alias.as_str() == own);
    ensure!(!is_own, "as: {own} is this host itself");
    refuse(&site, config, Some(&record.tenant))
}

/// Fails if the servers of this configuration refuse the site of a tenant; for none, if
/// they refuse it whoever has the host.
fn refuse(site: &site::Site, config: &Config, tenant: Option<&Tenant>) -> Result<()> {
    let guard = config.guard(Arc::new(config.own_addresses()));
    let Some(refused) = site.refused(&guard, tenant) else {
        return Ok(());
    };
    let file = config.file.display();
    let allowed = config.allowed.texts();
    let allowed = match allowed.is_empty() {
        true => "nothing".into(),
        false => allowed.join(", "),
    };
    bail!("{refused}; {file} allows {allowed}");
}

fn usage(error: &SiteError) -> Usage {
    Usage(error.to_string())
}

/// Reads a file, or standard input, of at most [`MAX_DOCUMENT`] bytes.
fn text_of(file: &Path) -> Result<String> {
    let shown = file.display();
    let bytes = read_input(file, MAX_DOCUMENT as u64 + 1)
        .with_context(|| format!("{shown} can't be read"))?;
    if bytes.len() > MAX_DOCUMENT {
        bail!("{shown} has more than the {MAX_DOCUMENT} bytes that a site's document may have");
    }
    String::from_utf8(bytes).with_context(|| format!("{shown} is not UTF-8"))
}

/// Resolves `..` in an absolute path: no allowed root may contain it.
fn without_climbs(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the site's document, or its text if it can't be parsed.
pub(super) fn document(site: &Site) -> Value {
    serde_json::from_str(&site.json).unwrap_or_else(|_| Value::from(&*site.json))
}

/// Returns the site's document as it is shown: with a digest of each hash of a password,
/// unless `secrets` are asked for. A text that can't be parsed may hold some.
pub(super) fn shown(site: &Site, secrets: bool) -> Value {
    let mut document = document(site);
    match &document {
        _ if secrets => {}
        Value::String(text) if text.contains("auth") => {
            document = "can't be parsed, and may hold hashes of passwords; see --secrets".into();
        }
        _ => passwords::hide(&mut document),
    }
    document
}

/// Formats a line such as `root /srv/www`.
pub(super) fn line(site: &Site, secrets: bool) -> String {
    let document = match shown(site, secrets) {
        Value::Object(document) => document,
        Value::String(text) => return text,
        other => return other.to_string(),
    };
    let pairs = document.iter().map(|(key, value)| match value {
        Value::String(text) => format!("{key} {text}"),
        other => format!("{key} {other}"),
    });
    pairs.collect::<Vec<_>>().join(", ")
}
