//! Watcher of a folder with all pairs, which nobody changes for some time, and then one renewal.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sekisho_bench::accounting::own_cpu;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::archive;
use super::field::Field;
use super::visits::client;

/// Result of a watch.
#[derive(Clone, Copy, Default)]
pub(super) struct Rest {
    /// Percentage of a core that the watcher used at rest.
    pub(super) core_percent: f64,
    /// Time from the last write of a renewed pair until it was served.
    pub(super) renewal: Duration,
}

/// Unpacks the archive and watches the folder for this time, with the scans that the defaults
/// have. `dir` holds the archive's CAs.
pub(super) async fn measure(
    field: &Field,
    dir: &Path,
    archive: &Path,
    time: Duration,
) -> Result<Rest> {
    let pairs = field.pairs();
    fs::create_dir(&pairs)?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(&pairs);
    ensure!(tar.status().await?.success(), "tar failed");
    let mut watch = field.command(&["cert", "import", "--layout", "flat", "--watch"]);
    let mut watcher = watch.arg(&pairs).spawn()?;
    let pid = watcher.id().context("it runs")?;
    until_at_rest(&mut watcher, pid).await?;
    let (begun, before) = (Instant::now(), own_cpu(pid)?);
    sleep(time).await;
    let used = own_cpu(pid)? - before;
    let core_percent = 100.0 * used.as_secs_f64() / begun.elapsed().as_secs_f64();
    let renewal = renew(field, dir, &pairs).await?;
    watcher.kill().await?;
    Ok(Rest {
        core_percent,
        renewal,
    })
}

/// Waits until the watcher has read all pairs: it then uses next to no CPU time.
async fn until_at_rest(watcher: &mut Child, pid: u32) -> Result<()> {
    let begun = Instant::now();
    let mut before = Duration::ZERO;
    loop {
        sleep(LOOK).await;
        let ended = watcher.try_wait()?;
        ensure!(ended.is_none(), "the watcher ended: {ended:?}");
        let now = own_cpu(pid)?;
        if now - before < LOOK / 20 {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "the watcher comes to no rest");
        before = now;
    }
}

/// Renews the first pair in two steps. Returns the time until the first server shows it.
async fn renew(field: &Field, dir: &Path, pairs: &Path) -> Result<Duration> {
    let name = archive::host(archive::PAIRS, 0);
    let (chain, key) = archive::renewed(dir, &name)?;
    let leaf = CertificateDer::from_pem_slice(chain.as_bytes());
    let leaf = leaf.map_err(|error| anyhow!("{error}"))?;
    let (address, _) = field.servers[0].serving().context("it serves")?;
    let client = client(address)?;
    fs::write(pairs.join(format!("{name}.key")), key)?;
    fs::write(pairs.join(format!("{name}.crt")), chain)?;
    let begun = Instant::now();
    loop {
        let stream = client.open(&name).await;
        let stream = stream.map_err(|failure| anyhow!("{name}: {}", failure.kind()))?;
        let shown = stream.get_ref().1.peer_certificates();
        if shown.is_some_and(|chain| chain.first() == Some(&leaf)) {
            return Ok(begun.elapsed());
        }
        ensure!(begun.elapsed() < PATIENCE, "{name} is not renewed");
        sleep(PAUSE).await;
    }
}

/// Time between two looks at whether the watcher rests.
const LOOK: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_mins(10);
const PAUSE: Duration = Duration::from_millis(20);
