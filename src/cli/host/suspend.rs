//! `sekisho host suspend` and `resume`

use std::mem;
use std::path::PathBuf;

use anyhow::{Context, bail};
use sekisho_certs::{HostPattern, HostRecord, Sealer, Site};
use sekisho_server::site::SiteDocument;
use serde_json::json;

use crate::cli::edit::{Edit, edit};
use crate::cli::host::read_input;
use crate::terminal::failure::{Ended, Result, Usage};

#[derive(Debug, clap::Args)]
#[command(after_help = SUSPEND)]
pub(crate) struct Args {
    /// The host, as it was stored
    pub(super) name: HostPattern,
    #[command(flatten)]
    pub(super) page: PageArgs,
}

/// Page of a suspension.
#[derive(Debug, clap::Args)]
pub(crate) struct PageArgs {
    /// Status of the answer, from 400 to 599
    #[arg(
        long,
        value_name = "CODE",
        default_value_t = 503,
        value_parser = clap::value_parser!(u16).range(400..=599)
    )]
    status: u16,
    /// Text of the answer, instead of "This site is suspended."; '-' is standard input
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
}

impl PageArgs {
    /// Reads the file that is named, and makes the document of the page.
    pub(crate) fn read(&self) -> Result<Site> {
        let text = match &self.text {
            None => TEXT.to_owned(),
            Some(file) => {
                let shown = file.display();
                let bytes = read_input(file, MAX_TEXT + 1);
                let bytes = bytes.with_context(|| format!("--text: {shown} can't be read"))?;
                if bytes.len() as u64 > MAX_TEXT {
                    bail!("--text: {shown} has more than {MAX_TEXT} bytes");
                }
                String::from_utf8(bytes).with_context(|| format!("--text: {shown} is not UTF-8"))?
            }
        };
        let document = json!({ "status": self.status, "text": text }).to_string();
        let document = SiteDocument::parse(&document).map_err(|error| Usage(error.to_string()))?;
        Ok(document.stored().clone())
    }
}

/// Suspends a host with a page, or resumes it with none.
pub(super) async fn run(
    sealer: &Sealer,
    name: &HostPattern,
    page: Option<&PageArgs>,
) -> Result<Ended> {
    let page = page.map(PageArgs::read).transpose()?;
    edit(sealer, name, async |stored| match stored {
        Some(record) => Ok(with_page(record, page.as_ref()).map_or(Edit::Keep, Edit::Put)),
        None => bail!("there is no host {name}; 'sekisho host list' shows which there are"),
    })
    .await?;
    Ok(Ended::Done)
}

/// Returns a record with this page of a suspension, or without one; none if it is so.
pub(crate) fn with_page(mut record: HostRecord, page: Option<&Site>) -> Option<HostRecord> {
    let before = mem::replace(&mut record.suspended, page.cloned());
    (before.as_ref() != page).then_some(record)
}

const TEXT: &str = "This site is suspended.\n";
/// Bytes of a page, which each record of a tenant holds.
const MAX_TEXT: u64 = 4096;

const SUSPEND: &str = "\
Examples:
  sekisho host suspend shop.example
  sekisho host suspend shop.example --status 451 --text blocked.txt";

pub(super) const RESUME: &str = "\
Examples:
  sekisho host resume shop.example";
