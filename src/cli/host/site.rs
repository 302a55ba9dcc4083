//! Sites on the command line: arguments and output.

use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use sekisho_certs::Site;
use sekisho_server::site::{self, Guard};
use serde_json::{Value, json};

use crate::cli::failure::{Result, Usage};
use crate::config::Config;

/// At most one of the ways to answer requests.
#[derive(Debug, clap::Args)]
#[group(id = "site", multiple = false)]
pub(crate) struct SiteArgs {
    /// Pass requests on to this server
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// Answer with the files of this folder; {host} stands for the name asked
    /// for
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Send clients to this URL; without a path there, theirs is kept
    #[arg(long, value_name = "URL")]
    redirect: Option<String>,
    /// Answer as [site] in the configuration says
    #[arg(long)]
    default_site: bool,
}

impl SiteArgs {
    /// Refuses kinds of sites that this version lacks.
    pub(super) fn check(&self) -> Result<()> {
        if self.upstream.is_some() {
            bail!(Usage(
                "--upstream is not built yet; this version answers with --root or --redirect"
                    .into()
            ));
        }
        self.chosen().map(drop)
    }

    /// Returns the folder of `--root`, or the one above its first `{host}`, if
    /// it is missing.
    pub(super) fn missing_folder(&self) -> Option<PathBuf> {
        let root = self.root.as_ref()?;
        let has_host = |part: &Path| part.to_string_lossy().contains("{host}");
        let fixed = root.ancestors().find(|part| !has_host(part))?;
        (!fixed.as_os_str().is_empty() && !fixed.is_dir()).then(|| fixed.to_owned())
    }

    /// Refuses a root that the servers of this configuration would not serve.
    pub(super) fn check_allowed(&self, config: &Config) -> Result<()> {
        let Some(Some(site)) = self.chosen()? else {
            return Ok(());
        };
        let guard = Guard::new(config.allowed_roots.clone(), config.own_files());
        let site = site::Site::parse(&site)?;
        let Some(refusal) = site.refusal(&guard) else {
            return Ok(());
        };
        let folders = config.allowed_roots.folders().iter();
        let folders: Vec<_> = folders.map(|folder| folder.to_string_lossy()).collect();
        bail!(
            "--root {}: {refusal}; {} allows {}",
            site.root().unwrap_or_default(),
            config.file.display(),
            if folders.is_empty() {
                "none".into()
            } else {
                folders.join(", ")
            },
        );
    }

    /// Returns the chosen site; None if none was chosen, Some(None) for the
    /// configuration's.
    pub(super) fn chosen(&self) -> Result<Option<Option<Site>>> {
        let document = if let Some(root) = &self.root {
            let root = std::path::absolute(root).context("--root")?;
            let root = without_climbs(&root);
            let root = root
                .to_str()
                .context("--root: the folder's name is not UTF-8")?;
            json!({ "root": root })
        } else if let Some(url) = &self.redirect {
            json!({ "redirect": url })
        } else {
            return Ok(self.default_site.then_some(None));
        };
        let site = Site {
            format: FORMAT,
            json: document.to_string().into(),
        };
        // The server's own parser reports the problem.
        site::Site::parse(&site).map_err(|error| Usage(error.to_string()))?;
        Ok(Some(Some(site)))
    }
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

/// Formats a line such as `root /srv/www`.
pub(super) fn line(site: &Site) -> String {
    let Value::Object(document) = document(site) else {
        return site.json.to_string();
    };
    let pairs = document.iter().map(|(key, value)| match value {
        Value::String(text) => format!("{key} {text}"),
        other => format!("{key} {other}"),
    });
    pairs.collect::<Vec<_>>().join(", ")
}

const FORMAT: u32 = 1;
