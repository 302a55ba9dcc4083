//! Moving in: each layout that `cert import` reads is made by its own tool where a registry has
//! that, at a real CA (Pebble), or filled with certificates of that CA, and imported by the
//! commands of docs/moving.md. Each name is asked of the server that was there before, or read
//! by openssl, and of ours: both must show the same leaf.

mod case;
mod commands;
mod fill;
mod old;
mod tools;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures_util::future::try_join_all;
use tokio::runtime;
use tokio::time::Instant;

use self::case::{CERTBOT, Shown};
use self::commands::Commands;
use self::tools::Tools;
use crate::acme::Setting;
use crate::chaos::interrupted;
use crate::leaf;
use crate::server::Server;

/// Which binaries.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    sekisho: PathBuf,

    /// The certbot binary, from tools/certbot
    #[arg(
        long,
        value_name = "FILE",
        default_value = "target/certbot-5.8.0/bin/certbot"
    )]
    certbot: PathBuf,

    /// The Caddy binary, from tools/caddy
    #[arg(long, value_name = "FILE", default_value = "target/caddy-2.11.9/caddy")]
    caddy: PathBuf,

    /// Fill Caddy's layout, and export nothing: building Caddy takes minutes
    #[arg(long)]
    without_caddy: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        tokio::select! {
            ended = move_in(options) => ended,
            interrupted = interrupted() => interrupted,
        }
    })
}

async fn move_in(options: &Options) -> Result<()> {
    let begun = Instant::now();
    let setting = Setting::new(&options.sekisho).await?;
    let tools = Tools::new(&setting, &options.certbot, &options.caddy)?;
    let mut commands = Commands::of_document();
    let store = setting.folder.path().join("store");
    fs::create_dir(&store)?;
    fs::write(store.join("sekisho.toml"), CONFIG)?;
    let cases = case::all(!options.without_caddy);
    let filler = setting.folder.path().join("filler");
    // Each order waits for a second several times: all layouts together take as long as one.
    try_join_all(cases.iter().map(|case| case.issue(&tools, &filler))).await?;
    let mut shown = Vec::new();
    for case in &cases {
        let names = case.run(&tools, &mut commands, &filler, &store).await;
        shown.extend(names.context(case.name)?);
    }
    let left = commands.left();
    let may_be_left = usize::from(options.without_caddy);
    ensure!(left.len() <= may_be_left, "nobody ran {left:?}");
    let differ = compare(&setting, &store, &shown).await?;
    let root = setting.folder.path().join(CERTBOT);
    watch::run(&tools, &mut commands, &root, &store).await?;
    let left_out = if options.without_caddy {
        " (Caddy left out)"
    } else {
        ""
    };
    println!("{:.0} s{left_out}", begun.elapsed().as_secs_f64());
    let (layouts, names) = (cases.len(), shown.len());
    println!("{layouts} layouts, {names} names, {differ} differ");
    ensure!(differ == 0, "{differ} names differ, see above");
    Ok(())
}

/// Asks our server for each name. Returns how many leaves are others than those of the servers
/// before.
async fn compare(setting: &Setting, store: &Path, shown: &[Shown]) -> Result<usize> {
    let server = Server::new(&setting.binary, store.to_owned());
    server.start().await?;
    let (address, _) = server.serving().context("it serves")?;
    let client = setting.client_of(address)?;
    let mut differ = 0;
    for Shown { case, host, leaf } in shown {
        let ours = leaf::shown(&client, host).await;
        let ours = ours.unwrap_or_else(|error| format!("{error:#}"));
        if ours != *leaf {
            println!("{case}: {host} had {leaf}, now: {ours}");
            differ += 1;
        }
    }
    server.tell_to_end()?;
    server.ended().await?;
    Ok(differ)
}

/// Configuration of the store and of our server.
const CONFIG: &str = "[listen]\nhttps = [\"127.0.0.1:0\"]\n\
                      [store]\nurl = \"sqlite:hosts.db\"\n\
                      [keys]\nmaster = \"file:master.key\"\n\
                      [server]\nworkers = 1\n";

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
Starts Pebble, which `make deps` installs; runs certbot, dehydrated, lego and Caddy against it;
starts nginx, HAProxy and Caddy on what these keep, and Redis. In the end certbot renews a
certificate while `cert import --watch` runs. It fails if a command does, if a name has another
leaf than before, or if a command of docs/moving.md was not run.

Examples:
  sekisho-system-tests move-in
  sekisho-system-tests move-in --without-caddy --sekisho target/debug/sekisho
";
