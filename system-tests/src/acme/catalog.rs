//! Catalog, its hosts, and the servers on it.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sekisho_certs::seal::KeyRing;
use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{
    Fence, HostPattern, HostRecord, Lineage, LineageName, SealedBytes, Sealer, Secret, Tenant,
    ToClaim,
};
use sekisho_stores::Mode;
use sekisho_stores::sqlite::Sqlite;
use sekisho_testkit::Key;
use sekisho_testkit::services::CaLimits;
use tokio::process::Command;

use super::setting::Setting;
use crate::server::Server;

/// Catalog whose servers order at one CA.
pub(crate) struct Catalog<'a> {
    setting: &'a Setting,
    folder: PathBuf,
    sealer: Sealer,
    issuance: Issuance,
}

/// `[acme]` of a catalog's servers.
#[derive(Clone, Debug)]
pub(crate) struct Issuance {
    /// Port of the CA on 127.0.0.1.
    pub(crate) ca: u16,
    pub(crate) solvers: &'static [&'static str],
    /// Limits of the CA, as the servers know them.
    pub(crate) quotas: Option<CaLimits>,
    pub(crate) orders: usize,
    pub(crate) waiting: usize,
    /// Seconds.
    pub(crate) wait: u64,
}

impl Issuance {
    /// Orders at the CA of this port, and is bounded as by default.
    pub(crate) fn at(ca: u16) -> Self {
        Self {
            ca,
            solvers: &["tls-alpn-01"],
            quotas: None,
            orders: 64,
            waiting: 1000,
            wait: 20,
        }
    }
}

impl<'a> Catalog<'a> {
    pub(crate) async fn new(setting: &'a Setting, name: &str, issuance: Issuance) -> Result<Self> {
        let folder = setting.folder.path().join(name);
        fs::create_dir(&folder)?;
        let catalog = Sqlite::open(&folder.join("hosts.db"), Mode::Create)?;
        let ring = KeyRing::create_file(&folder.join("master.key"))?;
        Ok(Self {
            setting,
            folder,
            sealer: Sealer::create(Arc::new(catalog), ring).await?,
            issuance,
        })
    }

    /// Makes a server at an address of this machine; the caller starts it.
    pub(crate) fn server(&self, address: Ipv4Addr) -> Result<Server> {
        let folder = self.folder.join(address.to_string());
        fs::create_dir(&folder)?;
        fs::write(folder.join("sekisho.toml"), self.config(address))?;
        Ok(Server::new(&self.setting.binary, folder))
    }

    /// Stores hosts without a certificate.
    pub(crate) async fn put_hosts(&self, tenant: &str, names: &[String]) -> Result<()> {
        let tenant = self::tenant(tenant)?;
        for some in names.chunks(CHUNK) {
            let puts = some.iter().map(|name| {
                let mut record = HostRecord::new(pattern(name)?);
                record.tenant = tenant.clone();
                Ok(Write::PutHost(record, Precondition::Any))
            });
            self.sealer.write(puts.collect::<Result<_>>()?).await?;
        }
        Ok(())
    }

    /// Stores lineages that are due, each with its turn.
    pub(crate) async fn put_lineages(
        &self,
        tenant: &str,
        names: &[String],
        turn: impl Fn(usize) -> i64,
    ) -> Result<()> {
        let tenant = self::tenant(tenant)?;
        let numbered: Vec<_> = names.iter().enumerate().collect();
        for some in numbered.chunks(CHUNK) {
            let puts = some.iter().map(|(number, name)| {
                let lineage = Lineage::<Secret>::new(tenant.clone(), [pattern(name)?]);
                let mut lineage = lineage.context("it has a name")?;
                lineage.due = Some(0);
                lineage.turn = turn(*number);
                Ok(Write::PutLineage(lineage, Fence::Any))
            });
            self.sealer.write(puts.collect::<Result<_>>()?).await?;
        }
        Ok(())
    }

    /// Stores hosts with certificates.
    pub(crate) async fn import(&self, names: &[String]) -> Result<()> {
        let pairs = self.folder.join("pairs");
        fs::create_dir(&pairs)?;
        for name in names {
            let pair = self.setting.ca.issue(&[name], Key::P256);
            fs::write(pairs.join(format!("{name}.crt")), pair.chain_pem())?;
            fs::write(pairs.join(format!("{name}.key")), pair.key_pem())?;
        }
        self.command(&["cert", "import", "--dir", "pairs"]).await
    }

    /// Renews the certificates of these names by hand.
    pub(crate) async fn renew(&self, names: &[String]) -> Result<()> {
        let names = names.iter().map(String::as_str);
        let arguments: Vec<_> = ["cert", "renew"].into_iter().chain(names).collect();
        self.command(&arguments).await
    }

    /// Divides the pause after the failure of this second by `scale`. Tells whether it
    /// did: a process may work on the lineage.
    pub(crate) async fn shorten_pause(&self, name: &str, at: i64, scale: u32) -> Result<bool> {
        let named = LineageName::from(&pattern(name)?);
        let catalog = self.sealer.catalog();
        let to_claim = ToClaim::Named(vec![named.clone()]);
        let claimed = catalog.claim(to_claim, "bench", CLAIM).await?;
        let (Some((_, claim)), Some(found)) =
            (claimed.first(), catalog.lineages(&[named]).await?.pop())
        else {
            return Ok(false);
        };
        let mut lineage = self.sealer.open_lineage(found).await?;
        let is_it = lineage
            .last_error
            .as_ref()
            .is_some_and(|error| error.at == at);
        if let Some(due) = lineage.due.filter(|_| is_it) {
            lineage.due = Some(at + (due - at) / i64::from(scale));
        }
        lineage.claim = None;
        let put = Write::PutLineage(lineage, Fence::Epoch(claim.epoch));
        self.sealer.write(vec![put]).await?;
        Ok(is_it)
    }

    async fn command(&self, arguments: &[&str]) -> Result<()> {
        // Any server's configuration will do.
        fs::write(
            self.folder.join("sekisho.toml"),
            self.config(Ipv4Addr::LOCALHOST),
        )?;
        let mut command = Command::new(&self.setting.binary);
        command
            .args(arguments)
            .current_dir(&self.folder)
            .kill_on_drop(true);
        let output = command.output().await?;
        let said = String::from_utf8_lossy(&output.stderr);
        let what = arguments[..2].join(" ");
        ensure!(output.status.success(), "{what}: {said}");
        Ok(())
    }

    /// Reads the lineage of a name.
    pub(crate) async fn lineage(&self, name: &str) -> Result<Option<Lineage<SealedBytes>>> {
        let name = LineageName::from(&pattern(name)?);
        let found = self.sealer.catalog().lineages(&[name]).await;
        Ok(found?.pop())
    }

    /// Tells whether the lineage of a name has its certificate, and nothing is left to
    /// do for it.
    pub(crate) async fn is_settled(&self, name: &str) -> Result<bool> {
        let lineage = self.lineage(name).await?;
        Ok(lineage.is_some_and(|one| {
            one.credential.is_some() && one.claim.is_none() && one.order.is_none()
        }))
    }

    fn config(&self, address: Ipv4Addr) -> String {
        let Issuance {
            ca,
            solvers,
            quotas,
            orders,
            waiting,
            wait,
        } = self.issuance;
        format!(
            "[listen]\nhttps = [\"{address}:{https}\"]\nhttp = [\"{address}:{http}\"]\n\
             admin = \"127.0.0.1:0\"\n\
             [store]\nurl = \"sqlite:{folder}/hosts.db\"\n\
             [keys]\nmaster = \"file:{folder}/master.key\"\n\
             [site]\nroot = \"{pages}\"\n[sites]\nallow = [\"{pages}\"]\n\
             [server]\nworkers = 1\n\
             [acme]\ncas = [\"pebble\"]\nagree = true\nresolvers = [\"127.0.0.1:{dns}\"]\n\
             solvers = {solvers:?}\norders = {orders}\nwaiting = {waiting}\n\
             handshake_timeout = \"{wait}s\"\n\
             [acme.ca.pebble]\ndirectory = \"https://127.0.0.1:{ca}/dir\"\nca = \"{root}\"\n{quotas}",
            quotas = quotas.map(quotas_line).unwrap_or_default(),
            https = self.setting.https,
            http = self.setting.http,
            folder = self.folder.display(),
            pages = self.setting.pages().display(),
            dns = self.setting.pebble.challenges().dns_port(),
            root = self.setting.pebble.root().display(),
        )
    }
}

fn quotas_line(limits: CaLimits) -> String {
    let CaLimits {
        orders,
        domains,
        duplicates,
        failures,
        ..
    } = limits;
    let limit = |(count, seconds): (u32, u32)| format!("\"{count} per {seconds}s\"");
    let [orders, domains, duplicates, failures] =
        [orders, domains, duplicates, failures].map(limit);
    format!(
        "quotas = {{ orders = {orders}, domains = {domains}, duplicates = {duplicates}, \
         failures = {failures} }}\n"
    )
}

fn pattern(name: &str) -> Result<HostPattern> {
    HostPattern::parse(name).with_context(|| name.to_owned())
}

fn tenant(name: &str) -> Result<Tenant> {
    Tenant::parse(name).map_err(anyhow::Error::msg)
}

/// Claim of the bench while it changes a row.
const CLAIM: Duration = Duration::from_secs(5);
/// Writes in one transaction.
const CHUNK: usize = 1000;
