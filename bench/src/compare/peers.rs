//! Configurations of HAProxy and Caddy, and the templates of nginx. They stand in files of their
//! own, with names in braces for what differs; `apache` writes those of Apache.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::fixtures::{Folder, host_name};

/// What a configuration names.
#[derive(Debug)]
pub(crate) struct Peer<'a> {
    pub(crate) address: SocketAddr,
    /// Folder of [`bundles`].
    pub(crate) bundles: &'a Path,
    pub(crate) site: &'a Path,
    pub(crate) scratch: &'a Path,
    /// URL that gives out chain and key of a host.
    pub(crate) endpoint: &'a str,
}

impl Peer<'_> {
    /// Fills one of the templates below.
    pub(crate) fn config(&self, template: &str) -> String {
        template
            .replace("{address}", &self.address.to_string())
            .replace("{bundles}", &self.bundles.display().to_string())
            .replace("{site}", &self.site.display().to_string())
            .replace("{scratch}", &self.scratch.display().to_string())
            .replace("{endpoint}", self.endpoint)
    }
}

/// Writes chain and key of each host into one file, unless an earlier run did, and removes the
/// file of the next host: a reload adds it. Returns their folder.
pub(crate) fn bundles(fixture: Folder<'_>, hosts: usize) -> Result<PathBuf> {
    let folder = fixture.0.join("bundles");
    fs::create_dir_all(&folder)?;
    for number in 0..hosts {
        let name = host_name(number);
        let bundle = folder.join(format!("{name}.pem"));
        if bundle.exists() {
            continue;
        }
        let mut text = Vec::new();
        for file in [fixture.chain(&name), fixture.key(&name)] {
            let part = fs::read(&file);
            text.extend(part.with_context(|| format!("cannot read {}", file.display()))?);
        }
        // Whole or not at all: the next run takes what is there.
        let begun = folder.join("begun");
        fs::write(&begun, text)?;
        fs::rename(begun, bundle)?;
    }
    let next = folder.join(format!("{}.pem", host_name(hosts)));
    if next.exists() {
        fs::remove_file(next)?;
    }
    Ok(folder)
}

pub(crate) const HAPROXY: &str = include_str!("peers/haproxy.cfg");
pub(crate) const CADDY: &str = include_str!("peers/caddy.json");
pub(crate) const CADDY_HTTP: &str = include_str!("peers/caddy-http.json");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_in_braces_is_filled() {
        let peer = Peer {
            address: "127.0.0.1:443".parse().unwrap(),
            bundles: Path::new("/bundles"),
            site: Path::new("/site"),
            scratch: Path::new("/scratch"),
            endpoint: "http://127.9.0.1:9000/",
        };
        let text = peer.config(HAPROXY);
        assert!(text.contains("bind 127.0.0.1:443 ssl crt /bundles/\n"));
        assert!(!text.contains('{'));
        let caddy: serde_json::Value = serde_json::from_str(&peer.config(CADDY)).unwrap();
        let servers = &caddy["apps"]["http"]["servers"];
        assert_eq!(servers["bench"]["listen"][0], "127.0.0.1:443");
        assert_eq!(
            caddy["apps"]["tls"]["certificates"]["load_folders"][0],
            "/bundles"
        );
        assert_eq!(caddy["storage"]["root"], "/scratch");
        let caddy: serde_json::Value = serde_json::from_str(&peer.config(CADDY_HTTP)).unwrap();
        let policy = &caddy["apps"]["tls"]["automation"]["policies"][0];
        assert_eq!(policy["get_certificate"][0]["url"], peer.endpoint);
    }

    #[test]
    fn a_bundle_holds_chain_and_key() {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Folder(folder.path());
        fs::create_dir_all(fixture.hosts()).unwrap();
        for number in 0..2 {
            fs::write(fixture.chain(&host_name(number)), "chain\n").unwrap();
            fs::write(fixture.key(&host_name(number)), "key\n").unwrap();
        }
        for hosts in [1, 2, 1] {
            let bundles = bundles(fixture, hosts).unwrap();
            let text = fs::read_to_string(bundles.join("h0.example.test.pem")).unwrap();
            assert_eq!(text, "chain\nkey\n");
            assert_eq!(bundles.join("h1.example.test.pem").exists(), hosts == 2);
        }
        assert!(bundles(fixture, 3).is_err());
    }
}
