//! Servers that serve what another tool keeps: nginx, HAProxy, and Caddy itself.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sekisho_testkit::services::free_ports;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::tools::Tools;

/// Process of a server; it ends when this is dropped.
pub(super) struct Old {
    pub(super) address: SocketAddr,
    child: Child,
}

/// Site of nginx: its names, and the files of its pair.
pub(super) struct Pair {
    pub(super) names: Vec<String>,
    pub(super) chain: PathBuf,
    pub(super) key: PathBuf,
}

impl Old {
    pub(super) async fn nginx(folder: &Path, pairs: &[Pair]) -> Result<Self> {
        let address = next_address();
        let mut servers = String::new();
        for Pair { names, chain, key } in pairs {
            servers += &format!(
                "    server {{\n        listen {address} ssl;\n        server_name {};\n        \
                 ssl_certificate \"{}\";\n        ssl_certificate_key \"{}\";\n    }}\n",
                names.join(" "),
                chain.display(),
                key.display(),
            );
        }
        let text = NGINX.replace("FOLDER", &folder.to_string_lossy());
        let config = folder.join("nginx.conf");
        fs::write(&config, text.replace("SERVERS", &servers))?;
        let mut command = daemon("/usr/sbin/nginx");
        command.args(["-e", "stderr", "-p"]).arg(folder);
        command.arg("-c").arg(config);
        Self::start(command, folder, address).await
    }

    /// Starts HAProxy, whose certificates are these arguments of `bind`.
    pub(super) async fn haproxy(folder: &Path, base: &Path, certificates: &str) -> Result<Self> {
        let address = next_address();
        let text = format!(
            "global\n    crt-base {base}\n\
             defaults\n    mode http\n    timeout connect 5s\n    timeout client 5s\n    \
             timeout server 5s\n\
             frontend old\n    bind {address} ssl {certificates}\n    \
             http-request return status 200\n",
            base = base.display(),
        );
        let config = folder.join("haproxy.cfg");
        fs::write(&config, text)?;
        let mut command = daemon("/usr/sbin/haproxy");
        command.arg("-db").arg("-f").arg(config);
        Self::start(command, folder, address).await
    }

    /// Starts Caddy for these names. It orders their certificates at the CA of the run.
    pub(super) async fn caddy(tools: &Tools<'_>, root: &Path, names: &[String]) -> Result<Self> {
        let setting = tools.setting;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, setting.https));
        let sites: Vec<_> = names.iter().map(|name| format!("https://{name}")).collect();
        let storage = root.join(CADDY);
        let text = CADDYFILE
            .replace("STORAGE", &storage.to_string_lossy())
            .replace("HTTPS_PORT", &setting.https.to_string())
            .replace("CA_ROOT", &setting.pebble.root().to_string_lossy())
            .replace("CA_URL", &setting.pebble.directory())
            .replace("SITES", &sites.join(", "));
        let config = root.join("etc/caddy/Caddyfile");
        fs::create_dir_all(root.join("etc/caddy"))?;
        fs::write(&config, text)?;
        let mut command = daemon(tools.caddy());
        command
            .args(["run", "--adapter", "caddyfile", "--config"])
            .arg(config)
            // Caddy keeps files of its own beside its storage.
            .env("XDG_CONFIG_HOME", root)
            .env("XDG_DATA_HOME", root);
        Self::start(command, root, address).await
    }

    /// Starts a process, and waits until it listens.
    async fn start(mut command: Command, folder: &Path, address: SocketAddr) -> Result<Self> {
        let log = folder.join("old.log");
        let child = command.stderr(File::create(&log)?).spawn();
        let mut child = child.context("setpriv, of util-linux")?;
        let begun = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            let said = || fs::read_to_string(&log).unwrap_or_default();
            if let Some(status) = child.try_wait()? {
                bail!("the old server ended with {status}:\n{}", said());
            }
            ensure!(begun.elapsed() < START, "it does not listen:\n{}", said());
            sleep(POLL).await;
        }
        Ok(Self { address, child })
    }

    /// Ends the process, and waits until its port is free.
    pub(super) async fn end(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}

fn next_address() -> SocketAddr {
    let [port] = free_ports();
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Makes the command of a program that the kernel ends with this one, even if this one is
/// killed.
fn daemon(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL"])
        .arg(program.as_ref())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Folder of Caddy's storage below its root.
pub(super) const CADDY: &str = "var/lib/caddy/.local/share/caddy";
const NGINX: &str = include_str!("nginx.conf");
const CADDYFILE: &str = include_str!("Caddyfile");
/// Far more than a start takes.
const START: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);
