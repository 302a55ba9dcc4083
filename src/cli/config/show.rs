//! `sekisho config show`

use std::io::Write;
use std::path::Path;

use sekisho_certs::printable;
use serde::Serialize;
use serde_json::Value;

use crate::config::{Entry, Origin, Section};
use crate::terminal::configuration;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::{Listing, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// As a JSON array, one key per line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(config: Option<&Path>, args: &Args) -> Result<Ended> {
    let sections = configuration::load(config)?.effective();
    match args.json {
        true => list(&sections)?,
        false => {
            let mut output = Output::new();
            for line in lines(&sections) {
                writeln!(output, "{line}")?;
            }
            output.flush()?;
        }
    }
    Ok(Ended::Done)
}

/// JSON form of a key.
#[derive(Serialize)]
struct View<'a> {
    key: String,
    /// `null` if the key is not set and has no default.
    value: Option<&'a Value>,
    origin: &'a Origin,
}

fn list(sections: &[Section]) -> Result<()> {
    let mut listing = Listing::new(true);
    for section in sections {
        let entries = section.entries.iter().map(|entry| View {
            key: format!("{}.{}", section.path, entry.key),
            value: entry.value.as_ref(),
            origin: &entry.origin,
        });
        let without = (!section.is_set).then(|| View {
            key: section.path.clone(),
            value: None,
            origin: &Origin::Default,
        });
        for view in entries.chain(without) {
            listing.push(|| view, String::new)?;
        }
    }
    Ok(listing.end()?)
}

/// Writes the sections as TOML. Comments, which name the origins, stand in one column in each
/// section.
fn lines(sections: &[Section]) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        if index > 0 {
            lines.push(String::new());
        }
        if !section.is_set {
            lines.push(format!("# {}  # {NOT_SET}", section.header));
            continue;
        }
        lines.push(section.header.clone());
        let entries: Vec<_> = section.entries.iter().map(columns).collect();
        let widths = entries.iter().map(|(left, _)| left.chars().count());
        let width = widths.filter(|width| *width <= WIDEST).max();
        let width = width.unwrap_or_default();
        lines.extend(
            entries
                .iter()
                .map(|(left, origin)| format!("{left:width$}  # {origin}")),
        );
    }
    lines
}

/// Returns what stands before a comment, and the comment. What can't be written beside the
/// other keys is a comment as a whole.
fn columns(entry: &Entry) -> (String, String) {
    let assignment = entry.assignment();
    match &entry.origin {
        Origin::File { file, line } => (assignment, printable(&format!("{file}:{line}"))),
        Origin::Default if entry.is_built_in && entry.value.is_some() => {
            (format!("# {assignment}"), "default, built in".into())
        }
        Origin::Default if entry.value.is_none() => (format!("# {assignment}"), NOT_SET.into()),
        Origin::Default => (assignment, "default".into()),
    }
}

/// Origin of what is not set and has no default.
const NOT_SET: &str = "not set";
/// Widest line that the column of comments is moved for.
const WIDEST: usize = 60;

const EXAMPLES: &str = "\
Prints every key of the configuration in the order of the documentation, each
with the value that is in effect and, as a comment, its origin: file and line, or
'default'. Values of the file stand as they are written: relative paths lie below
its folder. Defaults that depend on the machine or on other keys are resolved, such
as the number of workers. Keys and sections that are not set and have no default
are comments ('not set'; null in JSON). Of [site] and [default], whose keys are
free, the written ones are shown.

'file:' and 'env:' are never read. Passwords in URLs, credentials that [site] sends
to upstreams, and hashes of passwords are shown as ***; else the output can be used
as a configuration. Nothing is opened but the file: no store, no script, no secret.
A configuration with mistakes is refused as by 'sekisho check'.

Examples:
  sekisho config show
  sekisho config show --config /etc/sekisho/sekisho.toml | grep -v '# default$'
  sekisho config show --json | jq '.[] | select(.origin != \"default\")'
  sekisho config show --json | jq -r '.[] | select(.key == \"server.workers\") | .value'";
