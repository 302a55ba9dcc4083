//! Chromium, driven over WebDriver.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use sekisho_testkit::services::free_ports;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::hosting::answers;

/// Driver of Chromium, with a home that trusts one CA. Both end when it is dropped.
pub(super) struct Driver {
    address: SocketAddr,
    profile: PathBuf,
    /// The driver's process group, which the browser belongs to.
    group: Pid,
    _child: Child,
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A killed driver would leave its browser behind. Both may have ended already.
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

/// Browser with one window.
pub(super) struct Session<'a> {
    driver: &'a Driver,
    path: String,
}

impl Driver {
    /// Starts chromedriver. Its home below `folder` trusts the CA of this PEM file.
    pub(super) async fn start(folder: &Path, root: &Path) -> Result<Self> {
        let home = folder.join("home");
        let trusted = home.join(".pki/nssdb");
        fs::create_dir_all(&trusted)?;
        let store = format!("sql:{}", trusted.display());
        certutil(&["-N", "--empty-password", "-d", &store]).await?;
        let root = root.to_string_lossy();
        certutil(&["-A", "-d", &store, "-n", "test", "-t", "C,,", "-i", &root]).await?;
        let [port] = free_ports();
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "chromedriver"])
            .arg(format!("--port={port}"))
            .env("HOME", &home)
            .stdin(Stdio::null())
            .stdout(File::create(folder.join("chromedriver.log"))?)
            .stderr(File::create(folder.join("chromium.log"))?)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("setpriv, of util-linux")?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let begun = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            ensure!(
                child.try_wait()?.is_none(),
                "chromedriver does not start; run `make deps`"
            );
            ensure!(begun.elapsed() < START, "chromedriver does not listen");
            sleep(POLL).await;
        }
        Ok(Self {
            address,
            profile: folder.join("profile"),
            group: group.context("it runs")?,
            _child: child,
        })
    }

    /// Opens a browser in which all names lead to loopback.
    pub(super) async fn open(&self, arguments: &[&str]) -> Result<Session<'_>> {
        let profile = format!("--user-data-dir={}", self.profile.display());
        let own = [
            "--headless=new",
            // As root, Chromium has no sandbox.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--host-resolver-rules=MAP * 127.0.0.1",
            &profile,
        ];
        let arguments: Vec<_> = own.iter().chain(arguments).collect();
        let options = json!({ "args": arguments });
        let wanted =
            json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": options } } });
        let made = self.call("POST", "/session", &wanted).await?;
        let id = made["sessionId"].as_str().context("no session")?;
        Ok(Session {
            driver: self,
            path: format!("/session/{id}"),
        })
    }

    /// Calls the driver; returns the `value` of its answer.
    async fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let body = body.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let exchange = async {
            let mut stream = TcpStream::connect(self.address).await?;
            stream.write_all(request.as_bytes()).await?;
            // The driver keeps the connection open.
            let mut received = Vec::new();
            loop {
                ensure!(
                    stream.read_buf(&mut received).await? > 0,
                    "the driver ended"
                );
                let answer = answers::parse(&received, &[]).into_iter().next();
                if let Some(answer) = answer.filter(|answer| answer.complete) {
                    return anyhow::Ok(answer);
                }
            }
        };
        let answer = timeout(PATIENCE, exchange)
            .await
            .with_context(|| format!("{method} {path}: Chromium hangs"))??;
        let mut answer: Value = serde_json::from_slice(&answer.body)?;
        let value = answer["value"].take();
        if let Some(error) = value["error"].as_str() {
            bail!("{method} {path}: {error}: {}", value["message"]);
        }
        Ok(value)
    }
}

impl Session<'_> {
    pub(super) async fn visit(&self, url: &str) -> Result<()> {
        let path = format!("{}/url", self.path);
        let body = json!({ "url": url });
        self.driver.call("POST", &path, &body).await?;
        Ok(())
    }

    /// Runs a script that calls its last argument with its result.
    pub(super) async fn run(&self, script: &str, arguments: &[&str]) -> Result<Value> {
        let path = format!("{}/execute/async", self.path);
        let body = json!({ "script": script, "args": arguments });
        self.driver.call("POST", &path, &body).await
    }

    pub(super) async fn close(self) -> Result<()> {
        self.driver.call("DELETE", &self.path, &json!({})).await?;
        Ok(())
    }
}

async fn certutil(arguments: &[&str]) -> Result<()> {
    let output = Command::new("certutil").args(arguments).output().await;
    let output = output.context("certutil, of libnss3-tools; run `make deps`")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "certutil: {said}");
    Ok(())
}

const START: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
/// A browser's start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
