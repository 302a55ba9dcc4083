//! `sekisho init`: a configuration to begin with.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::process::geteuid;

use crate::cli::failure::{Ended, Result};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder that gets sekisho.toml; it is made if it is missing
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<Ended> {
    let file = args.dir.join("sekisho.toml");
    let context = || file.display().to_string();
    fs::create_dir_all(&args.dir).with_context(context)?;
    match File::create_new(&file) {
        Ok(mut created) => created
            .write_all(configuration().as_bytes())
            .with_context(context)?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists already; it is not overwritten", file.display())
        }
        Err(error) => return Err(error).with_context(context),
    }
    println!("wrote {}; next:", file.display());
    let option = option(&args.dir, &file);
    for (command, what) in NEXT {
        println!("  sekisho {command}{option}    # {what}");
    }
    Ok(Ended::Done)
}

/// Returns the default ports of a privileged user, or of any other.
fn configuration() -> String {
    let (https, http) = match geteuid().is_root() {
        true => (443, 80),
        false => (8443, 8080),
    };
    TEMPLATE
        .replace("HTTPS_PORT", &https.to_string())
        .replace("HTTP_PORT", &http.to_string())
}

/// Returns the option with which commands find the file; empty in the current
/// folder.
fn option(dir: &Path, file: &Path) -> String {
    match dir == Path::new(".") {
        true => String::new(),
        false => format!(" --config {}", file.display()),
    }
}

const NEXT: [(&str, &str); 3] = [
    (
        "cert import --chain shop.crt --key shop.key",
        "makes the store and its master key",
    ),
    ("check", "finds mistakes without serving"),
    ("serve", "serves until SIGTERM or Ctrl-C"),
];

const TEMPLATE: &str = r#"# Configuration of sekisho. A relative path is taken below the folder of this
# file. 'sekisho check' finds mistakes; docs/configuration.md has every key.

[listen]
# TLS. Ports below 1024 need root or CAP_NET_BIND_SERVICE.
https = ["0.0.0.0:HTTPS_PORT", "[::]:HTTPS_PORT"]
# Plain HTTP: each request is redirected to HTTPS.
http = ["0.0.0.0:HTTP_PORT", "[::]:HTTP_PORT"]
# /healthz, /readyz and /metrics, for this machine alone.
admin = "127.0.0.1:9443"

[store]
# Hosts, certificates and sealed private keys. The first 'sekisho cert import'
# or 'sekisho host set' makes the file.
url = "sqlite:hosts.db"

[keys]
# Seals the private keys in the store, and is made with it. Back this file up
# apart from the store: without it, the stored keys are lost.
master = "file:master.key"

[sites]
# Folders below which 'host set --root' may take the files of a host.
allow = ["/srv", "/var/www"]

[site]
# Files of a host that has no site of its own; {host} stands for its name.
root = "/srv/www/{host}"

# Certificates by ACME for hosts that have none: remove the signs # below and write
# your address. Ports 443 and 80 of the hosts must lead here.
# [acme]
# cas = ["letsencrypt"]
# agree = true
# contact = ["mailto:you@example.com"]
"#;

const EXAMPLES: &str = "\
Writes DIR/sekisho.toml with comments: an embedded store, TLS and plain HTTP on
all addresses, and an admin listener on loopback. As root the ports are 443 and
80, else 8443 and 8080. A file that exists is never overwritten.

Examples:
  sekisho init
  sekisho init /etc/sekisho";
