//! Traefik's acme.json of 400 MB that is cut off: it is read one entry at a time.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use data_encoding::BASE64;
use sekisho_testkit::{Key, TestCa};
use serde_json::Value;

use super::field::{Field, run};
use super::mib;

/// Imports such a file, whose entries before the cut are taken. Returns the most bytes that the
/// import had resident.
pub(super) async fn measure(field: &Field, dir: &Path) -> Result<u64> {
    let file = fs::canonicalize(dir)?.join("acme.json");
    let entries = make(&file)?;
    let mut command = field.command(&["cert", "import", "--json"]);
    command.arg(&file);
    let (output, memory) = run(command).await?;
    fs::remove_file(&file)?;
    let counts: Value = serde_json::from_slice(&output.stdout)?;
    let count = |key: &str| counts[key].as_u64().with_context(|| format!("no {key}"));
    let taken = count("imported")? + count("skipped")?;
    ensure!(taken == entries, "{taken} of {entries} entries were taken");
    let refused = counts["refused"].as_array().context("a list")?;
    let is_told = matches!(&refused[..], [one] if one["reason"] == CUT);
    ensure!(is_told, "the cut was not told alone: {refused:?}");
    ensure!(output.status.code() == Some(1), "{}", output.status);
    let mib = mib(memory);
    println!("acme.json: {entries} entries before the cut, {mib} MiB");
    Ok(memory)
}

/// Makes the file. Returns the number of its whole entries.
fn make(file: &Path) -> Result<u64> {
    let pair = TestCa::new().issue(&[HOST], Key::P256);
    let halves = [pair.chain_pem(), pair.key_pem()];
    let [chain, key] = halves.map(|half| BASE64.encode(half.as_bytes()));
    let domain = format!(r#"{{"main":"{HOST}"}}"#);
    let entry = format!(r#"{{"domain":{domain},"certificate":"{chain}","key":"{key}"}},"#);
    let count = SIZE / entry.len();
    let mut to = BufWriter::new(File::create(file)?);
    to.write_all(br#"{"le":{"Certificates":["#)?;
    for _ in 0..count {
        to.write_all(entry.as_bytes())?;
    }
    to.write_all(&entry.as_bytes()[..entry.len() / 2])?;
    to.flush()?;
    Ok(count as u64)
}

const HOST: &str = "document.example";
const SIZE: usize = 400_000_000;
const CUT: &str = "the file ends in the middle";
