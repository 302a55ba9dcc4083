//! `sekisho init`: a configuration to begin with, with its store.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, anyhow, bail};
use rustix::process::geteuid;
use sekisho_certs::seal::KeySource;
use sekisho_stores::own_file::of_database;

use crate::config::Config;
use crate::terminal::failure::{Ended, Result};
use crate::wiring::open;
use crate::wiring::owner::{self, Folder, SERVICE, User};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder that gets sekisho.toml; it is made if it is missing
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// The folder of the store and its master key [default: /var/lib/sekisho as root, else DIR]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// As root: the user of the service, who gets the store and its key [default: sekisho, if
    /// there is one]
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Have hosts get certificates from Let's Encrypt, to whose terms you agree; it may warn you
    /// at this address
    #[arg(long, value_name = "MAIL")]
    acme: Option<String>,
}

pub(super) fn run(args: &Args) -> Result<Ended> {
    let file = args.dir.join("sekisho.toml");
    let context = || file.display().to_string();
    if fs::symlink_metadata(&file).is_ok() {
        bail!("{} exists already; it is not overwritten", file.display());
    }
    let user = owner::user(args.user.as_deref())?;
    fs::create_dir_all(&args.dir).with_context(context)?;
    let text = args.configuration()?;
    let config = Config::parse(&text, &file)?;
    // The configuration comes last: after a failure, the next run goes on.
    make_store(&config, user.as_ref())?;
    let mut created = File::create_new(&file).with_context(context)?;
    if user.is_some() {
        // The service reads it, whatever root's umask is. It has no secrets.
        let readable = Permissions::from_mode(0o644);
        created.set_permissions(readable).with_context(context)?;
    }
    created.write_all(text.as_bytes()).with_context(context)?;
    println!("wrote {}", file.display());
    args.tell_next(&file, user.as_ref());
    Ok(Ended::Done)
}

/// Makes the store and the key that the configuration names, for this user.
fn make_store(config: &Config, user: Option<&User>) -> Result<()> {
    let store = config.store.url.database().expect("the template has one");
    let folder = store.parent().expect("it is absolute");
    let key = match &config.keys {
        Some(KeySource::File(path)) => Some(path.clone()),
        _ => None,
    };
    let files = of_database(store).into_iter().chain(key);
    let made = Folder::make(folder, files.collect(), user)?;
    let runtime = open::runtime()?;
    drop(runtime.block_on(open::create(config))?);
    drop(runtime);
    if let Some(user) = user {
        made.give_to(user)?;
    } else if geteuid().is_root() {
        eprintln!(
            "there is no user {SERVICE}: {} belongs to root; a server of another user needs \
             'chown -R USER {}'",
            folder.display(),
            folder.display()
        );
    }
    Ok(())
}

impl Args {
    /// Fills the template: ports, folders and files of a privileged user, or of any other.
    fn configuration(&self) -> Result<String> {
        let (https, http, root) = match geteuid().is_root() {
            true => (443, 80, "/srv/www/{host}"),
            false => (8443, 8080, "www/{host}"),
        };
        let state = match (&self.state, geteuid().is_root()) {
            (Some(state), _) => Some(absolute(state).context("--state")?),
            (None, true) => Some(PathBuf::from(STATE)),
            (None, false) => None,
        };
        let below = |kind: &str, name: &str| {
            let path = state
                .as_ref()
                .map_or_else(|| name.into(), |state| state.join(name));
            let path = path.to_str().map(|path| format!("{kind}:{path}"));
            path.map(|path| toml::Value::String(path).to_string())
                .ok_or_else(|| anyhow!("--state: the path is not UTF-8"))
        };
        let (store, key) = (below("sqlite", "hosts.db")?, below("file", "master.key")?);
        let (https, http) = (https.to_string(), http.to_string());
        // A path of the operator may look like a place: the text is filled in one pass.
        let pieces = TEMPLATE.split('@').map(|piece| match piece {
            "HTTPS" => &https,
            "HTTP" => &http,
            "STORE" => &store,
            "KEY" => &key,
            "ROOT" => root,
            text => text,
        });
        let text: String = pieces.collect();
        let Some(mail) = &self.acme else {
            let lines = ACME.lines().map(|line| format!("# {line}\n"));
            return Ok(text + OF_ACME + &lines.collect::<String>());
        };
        let mail = toml::Value::String(format!("mailto:{mail}")).to_string();
        Ok(text + &ACME.replace("\"mailto:you@example.com\"", &mail))
    }

    /// Says how a first page is served, without files of certificates too.
    fn tell_next(&self, file: &Path, user: Option<&User>) {
        let option = match (self.dir == Path::new("."), user) {
            (true, None) => String::new(),
            (_, None) => format!(" --config {}", file.display()),
            (_, Some(_)) => {
                let file = absolute(file).unwrap_or_else(|_| file.to_owned());
                format!(" --config {}", file.display())
            }
        };
        let sudo = user.map_or_else(String::new, |user| format!("sudo -u {} ", user.name));
        let pages = match geteuid().is_root() {
            true => PathBuf::from("/srv/www"),
            false => self.dir.join("www"),
        };
        println!("next, for a first page:");
        if self.acme.is_none() {
            println!(
                "  remove the signs # before [acme] and its keys in {}, with your address; or store a \
                 certificate of yours:\n  {sudo}sekisho cert import --chain shop.crt --key shop.key{option}",
                file.display()
            );
        }
        println!(
            "  {sudo}sekisho host set www.example.com{option}    # a name that leads here; its page: {}",
            pages.join("www.example.com/index.html").display()
        );
        println!("  {sudo}sekisho check{option}    # finds mistakes without serving");
        match user {
            Some(user) => println!(
                "  serve as the user {}, by packaging/sekisho.service: 'systemctl start sekisho'; \
                 then open https://www.example.com/",
                user.name
            ),
            None => println!(
                "  sekisho serve{option}    # until SIGTERM or Ctrl-C; then open https://www.example.com/"
            ),
        }
    }
}

/// Folder of the service's state, which packaging/sekisho.service may write.
const STATE: &str = "/var/lib/sekisho";

const TEMPLATE: &str = r#"# Configuration of sekisho. A relative path is taken below the folder of this
# file. 'sekisho check' finds mistakes; docs/configuration.md has every key.

[listen]
# TLS. Ports below 1024 need root or CAP_NET_BIND_SERVICE.
https = ["0.0.0.0:@HTTPS@", "[::]:@HTTPS@"]
# Plain HTTP: each request is redirected to HTTPS.
http = ["0.0.0.0:@HTTP@", "[::]:@HTTP@"]
# /healthz, /readyz and /metrics, for this machine alone.
admin = "127.0.0.1:9443"

[store]
# Hosts, certificates and sealed private keys. 'sekisho init' made the file.
url = @STORE@

[keys]
# Seals the private keys in the store. Back this file up apart from the store:
# without it, the stored keys are lost.
master = @KEY@

[sites]
# What sites of hosts may name: folders for 'host set --root', and networks for
# 'host set --upstream', such as "127.0.0.1:3000" or "10.0.0.0/8".
allow = ["/srv", "/var/www"]

[site]
# Files of a host that has no site of its own; {host} stands for its name.
root = "@ROOT@"

# Certificates by ACME for hosts that have none, at their first visit. Ports 443 and
# 80 of the hosts must lead here.
"#;

/// Comment where nobody agreed to the CA's terms yet.
const OF_ACME: &str = "\
# Remove the signs # below and write your address; you agree to the terms of the CA.
";

/// End of the template: certificates by ACME.
const ACME: &str = r#"[acme]
cas = ["letsencrypt"]
agree = true
contact = ["mailto:you@example.com"]
"#;

const EXAMPLES: &str = "\
Writes DIR/sekisho.toml with comments: an embedded store, TLS and plain HTTP on
all addresses, and an admin listener on loopback; and makes the store and its
master key, for the user of the service. As root the ports are 443 and 80, else
8443 and 8080. A file that exists is never overwritten, and a store that exists
is kept.

Examples:
  sekisho init
  sekisho init --acme ops@example.com
  sekisho init /etc/sekisho --user www-data";
