//! siege, the client of Peschel's measurement.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tokio::time::timeout;

use super::{CLIENT_BOUND, OPERATION_BOUND, Sample, Subject, mib, namespace};
use crate::compare::meter::Meter;
use crate::compare::rows::figure;
use crate::compare::server::PAGE;
use crate::fixtures::host_name;

impl Subject<'_> {
    /// Measures how long siege takes for the pages of all clients, each of any host.
    pub(super) async fn siege(&mut self, clients: u64, each: u64) -> Result<Sample> {
        let each = self.effort(each);
        let server = match self.server.take() {
            Some(server) => server,
            None => self.launch(None).await?,
        };
        let folder = self
            .place
            .workspace
            .scratch(&format!("{}-siege", self.name))?;
        let hosts = self.row.hosts.count(self.place.options.is_short());
        write_files(&folder, hosts, server.address.port())?;
        let core = self.place.options.client_core;
        let mut siege = namespace::command(core, &folder, &script(clients, each));
        siege.env("HOME", &folder);
        self.commands.push(format!("{:?}", siege.as_std()));
        let meter = Meter::start(server.pid(), self.place.support)?;
        let bound = CLIENT_BOUND + OPERATION_BOUND * u32::try_from(clients * each)?;
        let output = timeout(bound, siege.output()).await;
        let output = output.context("siege does not end")??;
        let used = meter.stop()?;
        let said = Said::read(&output.stdout)?;
        ensure!(
            said.successful_transactions == clients * each && said.failed_transactions == 0,
            "siege did not have all pages: {said:?}"
        );
        let memory = server.memory()?;
        self.server = Some(server);
        let micros = used.cpu.as_secs_f64() * 1e6 / (clients * each) as f64;
        Ok(vec![
            (figure::SIEGE, said.elapsed_time),
            (figure::CPU, micros),
            (figure::RSS, mib(memory.rss)),
            (figure::PSS, mib(memory.pss)),
        ])
    }
}

/// Asks for pages of any hosts, without rests between them, and for figures as JSON. What
/// siege says of its settings comes first.
fn script(clients: u64, each: u64) -> String {
    format!(
        "siege -C >/dev/null && \
         exec siege -R siegerc -c {clients} -r {each} -b -i -j -f urls"
    )
}

/// Writes siege's settings, the pages, and the addresses of their hosts.
fn write_files(folder: &Path, hosts: usize, port: u16) -> Result<()> {
    let (mut urls, mut addresses) = (String::new(), String::new());
    for name in (0..hosts).map(host_name) {
        writeln!(urls, "https://{name}:{port}{PAGE}")?;
        writeln!(addresses, "127.0.0.1 {name}")?;
    }
    fs::write(folder.join("urls"), urls)?;
    fs::write(folder.join("hosts"), addresses)?;
    Ok(fs::write(folder.join("siegerc"), SETTINGS)?)
}

/// Result that siege prints as JSON.
#[derive(Debug, Deserialize)]
struct Said {
    elapsed_time: f64,
    successful_transactions: u64,
    failed_transactions: u64,
}

impl Said {
    fn read(output: &[u8]) -> Result<Self> {
        let parsed = serde_json::from_slice(output);
        parsed.with_context(|| format!("siege said {:?}", String::from_utf8_lossy(output)))
    }
}

/// A connection for each page, and no page within a page.
const SETTINGS: &str = "\
verbose = false
color = off
logging = false
protocol = HTTP/1.1
connection = close
parser = false
cache = false
limit = 255
timeout = 60
failures = 1
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_siege_are_read() {
        let text = b"{\t\"transactions\":\t\t\t 500,\n\t\"elapsed_time\":\t\t 0.74,\n\
            \t\"successful_transactions\":\t 499,\n\t\"failed_transactions\":\t 1\n}\n";
        let said = Said::read(text).unwrap();
        assert_eq!(said.elapsed_time, 0.74);
        let pages = (said.successful_transactions, said.failed_transactions);
        assert_eq!(pages, (499, 1));
        assert!(Said::read(b"siege: no such file").is_err());
    }

    #[test]
    fn each_host_has_a_page_and_an_address() {
        let folder = tempfile::tempdir().unwrap();
        write_files(folder.path(), 2, 443).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let urls = "https://h0.example.test:443/index.html\n\
                    https://h1.example.test:443/index.html\n";
        assert_eq!(read("urls"), urls);
        assert_eq!(
            read("hosts"),
            "127.0.0.1 h0.example.test\n127.0.0.1 h1.example.test\n"
        );
    }
}
