//! Page cache: reads the files of a sample into memory before the sample.
//!
//! The host of a virtual machine may take back pages that were unused for some
//! seconds, even if much memory is free. One round would then read from memory
//! and the next from the disk. The files of both servers are treated alike.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};

use super::client::Load;
use super::options::Binary;
use super::rows::{Case, Content, Loaded, Row, Setup};
use super::sekisho::Store;
use super::setup::Place;
use crate::fixtures::{Folder, host_name};

/// Reads the files of a case that this load will read.
pub(crate) fn read(
    place: Place<'_>,
    row: &Row,
    case: &Case,
    binary: Binary,
    load: &Load,
) -> Result<()> {
    let hosts = row.hosts_of(case.content, place.options.is_short());
    match case.setup {
        Setup::Sekisho {
            store: Store::Sqlite,
            ..
        } => {
            let catalog = match case.content {
                Content::Files => place.workspace.catalog(binary, row.key, hosts),
                content => place.workspace.sites(hosts, content),
            };
            file(&catalog.join("hosts.db"))
        }
        Setup::Sekisho {
            store: Store::Files,
            ..
        }
        | Setup::Nginx {
            loaded: Loaded::ByVariable,
            ..
        }
        | Setup::NginxNext {
            loaded: Loaded::ByVariable,
            ..
        }
        | Setup::CaddyHttp => {
            let fixture = place.workspace.fixture(row.key, hosts);
            let asked = load.warmup + load.operations();
            (0..asked as usize).try_for_each(|number| {
                let name = host_name((load.start + number) % load.hosts);
                file(&Folder(&fixture).chain(&name))?;
                file(&Folder(&fixture).key(&name))
            })
        }
        // The hosts are in memory, or in another process.
        Setup::Nginx { .. }
        | Setup::NginxLua
        | Setup::NginxNext { .. }
        | Setup::NginxCosocket { .. }
        | Setup::Apache
        | Setup::HaProxy
        | Setup::Caddy
        | Setup::RedisClient
        | Setup::Cache(_)
        | Setup::Sekisho { .. } => Ok(()),
    }
}

fn file(path: &Path) -> Result<()> {
    let read = File::open(path).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
    read.map(drop)
        .with_context(|| format!("cannot read {}", path.display()))
}
