//! The demo's folder: configuration and pages.

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::terminal::failure::Result;

/// Folder that belongs to the demo.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    hosts: u32,
}

impl Folder {
    /// Creates the folder, or opens one that an earlier demo left. Refuses a
    /// folder with other files.
    pub(super) fn open(path: &Path, hosts: u32) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| path.display().to_string())?;
        let path = fs::canonicalize(path).with_context(|| path.display().to_string())?;
        let folder = Self { path, hosts };
        let is_ours = match fs::read_to_string(folder.config()) {
            Ok(text) => text.starts_with(MARK),
            Err(error) if error.kind() == ErrorKind::NotFound => folder.is_empty()?,
            Err(error) => return Err(error).with_context(|| folder.config().display().to_string()),
        };
        if !is_ours {
            bail!(
                "{} holds files that are not a demo's; name another folder with --dir",
                folder.path.display()
            );
        }
        Ok(folder)
    }

    pub(super) fn config(&self) -> PathBuf {
        self.path.join("sekisho.toml")
    }

    /// Writes the configuration: the usual ports where they are free, others
    /// where not.
    pub(super) fn write_config(&self) -> Result<()> {
        let [https, http, admin] = [8443, 8080, 9443].map(free);
        let (https, http, admin) = (https?, http?, admin?);
        let root = match self.has_page_per_host() {
            true => "www/{host}",
            false => "www",
        };
        let text = format!(
            "{MARK}\n\
             [listen]\n\
             https = [\"{https}\"]\n\
             http = [\"{http}\"]\n\
             admin = \"{admin}\"\n\n\
             [store]\n\
             url = \"sqlite:hosts.db\"\n\n\
             [keys]\n\
             master = \"file:master.key\"\n\n\
             [site]\n\
             root = \"{root}\"\n\n\
             [sites]\n\
             allow = [\"www\"]\n"
        );
        let path = self.config();
        replace(&path, text.as_bytes()).with_context(|| path.display().to_string())
    }

    /// Writes one page per host, or one for all where there are very many.
    pub(super) fn write_pages(&self) -> Result<()> {
        let www = self.path.join("www");
        if !self.has_page_per_host() {
            let title = format!("One of {} hosts", self.hosts);
            return write_page(&www, &title);
        }
        for number in 1..=self.hosts {
            let host = host(number);
            write_page(&www.join(&host), &host)?;
        }
        Ok(())
    }

    /// Returns whether the folder is empty, except for files of a demo that was
    /// killed at once.
    fn is_empty(&self) -> Result<bool> {
        let leftover = self.config().with_extension(FRESH);
        let entries = fs::read_dir(&self.path)?.filter_map(std::result::Result::ok);
        Ok(entries
            .map(|entry| entry.path())
            .all(|path| path == leftover))
    }

    fn has_page_per_host(&self) -> bool {
        self.hosts <= HOSTS_WITH_PAGES
    }
}

/// Returns the name of one host. `.example` never resolves (RFC 2606), and
/// hence can't be mistaken for a real host.
pub(super) fn host(number: u32) -> String {
    format!("host-{number}.example")
}

fn write_page(folder: &Path, title: &str) -> Result<()> {
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><title>{title}</title>\n\
         <p>This is {title}, served by sekisho.\n"
    );
    let path = folder.join("index.html");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, page))
        .with_context(|| path.display().to_string())
}

/// Replaces a file atomically.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let fresh = path.with_extension(FRESH);
    let mut file = fs::File::create(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

/// Returns a loopback address with this port, or with a free one if it is
/// taken.
fn free(port: u16) -> Result<SocketAddr> {
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    if TcpListener::bind(wanted).is_ok() {
        return Ok(wanted);
    }
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .context("no port of 127.0.0.1 is free")?;
    eprintln!("{wanted} is taken, the demo uses {other} instead");
    Ok(other)
}

/// The first line of a configuration that may be overwritten.
const MARK: &str = "# Written by 'sekisho demo', which may write it again.";
/// Extension of an unfinished file.
const FRESH: &str = "new";
/// Hosts with their own page. More folders and files would take more disk than
/// the store.
const HOSTS_WITH_PAGES: u32 = 10_000;
