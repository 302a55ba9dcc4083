//! Facts about the machine and the programs of a comparison.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use aws_lc_rs::digest::{SHA256, digest};
use rcgen::{KeyPair, SigningKey};
use rustix::process::{Resource, getrlimit};

use super::Options;
use super::counters::Support;
use sekisho_bench::accounting::available_memory;

pub(crate) fn facts(options: &Options, support: &Support) -> Vec<(String, String)> {
    let sekisho = options.sekisho.as_path();
    let facts = [
        ("CPU", cpu()),
        ("memory", file_line("/proc/meminfo", "MemTotal:")),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("nginx", output(&options.nginx, &["-V"], 2)),
        // A build of another compiler has a line of its own for it.
        ("nginx 1.28", output(&options.nginx_next, &["-V"], 5)),
        ("Apache", output(&options.apache, &["-v"], 1)),
        ("HAProxy", output(&options.haproxy, &["-v"], 1)),
        ("Caddy", output(&options.caddy, &["version"], 1)),
        (
            "Redis",
            output(Path::new("redis-server"), &["--version"], 1),
        ),
        ("PostgreSQL", postgres()),
        ("siege", output(Path::new("siege"), &["-V"], 1)),
        ("wrk", output(Path::new("wrk"), &["-v"], 1)),
        ("sekisho", build(Some(sekisho))),
        ("baseline", build(options.against.as_deref())),
        ("trained build", build(options.trained.as_deref())),
        (
            "commit",
            output(
                Path::new("git"),
                &["describe", "--always", "--dirty", "--abbrev=12"],
                1,
            ),
        ),
        ("hardware counters", Ok(support.describe())),
        (
            "P-256 signature on one core, by aws-lc",
            signature_micros(SIGNATURES).map(|micros| format!("{micros:.1} µs")),
        ),
    ];
    facts
        .into_iter()
        .map(|(name, value)| {
            let value = value.unwrap_or_else(|error| format!("unknown ({error:#})"));
            (name.to_owned(), value)
        })
        .collect()
}

/// Returns the SHA-256 of each sekisho binary, and of this program: builds of one version and
/// commit may differ.
pub(crate) fn hashes(options: &Options) -> Result<Vec<(String, String)>> {
    let own = std::env::current_exe().context("this program has no path")?;
    let trained = options.trained.iter();
    let trained = trained.map(|program| ("SHA-256 of the trained build", program));
    let builds = [
        ("SHA-256 of sekisho", &options.sekisho),
        ("SHA-256 of sekisho-bench", &own),
    ];
    let hash = |(name, program): (&str, &PathBuf)| {
        let bytes = fs::read(program);
        let bytes = bytes.with_context(|| format!("cannot read {}", program.display()))?;
        Ok((name.to_owned(), format!("{:?}", digest(&SHA256, &bytes))))
    };
    builds.into_iter().chain(trained).map(hash).collect()
}

/// Returns version and file of a binary: the folder tells a trained build.
fn build(program: Option<&Path>) -> Result<String> {
    let Some(program) = program else {
        return Ok("none".to_owned());
    };
    let version = output(program, &["--version"], 1)?;
    Ok(format!("{version}, {}", program.display()))
}

/// Returns the command line of this program, as a report shows it.
pub(crate) fn command_line() -> String {
    std::env::args().collect::<Vec<_>>().join(" ")
}

/// Returns the time in UTC, for file names: without colons, and without
/// seconds, which two reports never share.
pub(crate) fn date() -> Result<String> {
    output(Path::new("date"), &["-u", "+%Y-%m-%d-%H%M"], 1)
}

/// Returns the list of cores on which this process may run.
pub(crate) fn allowed_cores() -> Result<String> {
    file_line("/proc/self/status", "Cpus_allowed_list:")
}

/// Returns the bytes of memory that a server may take: what is free, or the limit of an address
/// space if it is less, which servers inherit from this process.
pub(crate) fn free_memory() -> Result<u64> {
    let limit = getrlimit(Resource::As).current.unwrap_or(u64::MAX);
    Ok(limit.min(available_memory()?))
}

pub(crate) fn load_average() -> String {
    let text = read("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Measures the time of one signature. It tells a slow or busy machine from a
/// slow server.
pub(crate) fn signature_micros(signatures: u32) -> Result<f64> {
    let key = KeyPair::generate()?;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..signatures {
            key.sign(b"what a handshake signs")?;
        }
        let micros = begin.elapsed().as_secs_f64() * 1e6;
        best = best.min(micros / f64::from(signatures));
    }
    Ok(best)
}

fn cpu() -> Result<String> {
    let model = file_line("/proc/cpuinfo", "model name")?;
    let cores = std::thread::available_parallelism()?;
    Ok(format!("{model}, {cores} cores"))
}

fn file_line(file: &str, prefix: &str) -> Result<String> {
    let text = read(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(prefix));
    let value = line.with_context(|| format!("no {prefix} in {file}"))?;
    Ok(value.trim_start_matches([' ', '\t', ':']).to_owned())
}

fn read(file: &str) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    Ok(text.trim().to_owned())
}

/// Returns the version of the newest installed PostgreSQL, which is the one
/// that is started.
fn postgres() -> Result<String> {
    let folders = fs::read_dir("/usr/lib/postgresql").context("is it installed?")?;
    let newest = folders.flatten().map(|folder| folder.path()).max();
    let newest = newest.context("is it installed?")?;
    output(&newest.join("bin/postgres"), &["--version"], 1)
}

fn output(program: &Path, arguments: &[&str], lines: usize) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(text.lines().take(lines).collect::<Vec<_>>().join(", "))
}

const ROUNDS: u32 = 5;
const SIGNATURES: u32 = 1_000;
