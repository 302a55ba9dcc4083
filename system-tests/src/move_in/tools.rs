//! Tools that get certificates from the CA of the run: certbot, dehydrated and lego. All answer
//! DNS-01, by one script.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use tokio::time::timeout;

use crate::acme::Setting;

/// The tools, and a folder of programs for the commands of the documentation.
pub(super) struct Tools<'a> {
    pub(super) setting: &'a Setting,
    certbot: PathBuf,
    hook: PathBuf,
    programs: PathBuf,
}

/// Names of a certificate, and the type of its key.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Name of its files, where these are not named after a host.
    pub(super) alias: String,
    /// The host that it is named after comes first.
    pub(super) names: Vec<String>,
    pub(super) is_rsa: bool,
}

impl<'a> Tools<'a> {
    /// Writes the script, and links to the binaries of this run.
    pub(super) fn new(setting: &'a Setting, certbot: &Path, caddy: &Path) -> Result<Self> {
        let folder = setting.folder.path();
        let (hook, programs) = (folder.join("hook"), folder.join("programs"));
        let port = setting.pebble.challenges().management_port();
        fs::write(&hook, HOOK.replace("PORT", &port.to_string()))?;
        fs::set_permissions(&hook, Permissions::from_mode(0o755))?;
        fs::create_dir(&programs)?;
        symlink(&setting.binary, programs.join("sekisho"))?;
        // Without Caddy, its link leads nowhere.
        symlink(std::path::absolute(caddy)?, programs.join("caddy"))?;
        Ok(Self {
            setting,
            certbot: std::path::absolute(certbot)?,
            hook,
            programs,
        })
    }

    /// Returns Caddy's binary, which may not be there.
    pub(super) fn caddy(&self) -> PathBuf {
        self.programs.join("caddy")
    }

    /// Gets a lineage by certbot, whose folder is `/etc/letsencrypt` below `root`.
    pub(super) async fn certbot(&self, root: &Path, wanted: &Wanted) -> Result<()> {
        let mut command = self.certbot_command("certonly", root);
        command
            .args(["--agree-tos", "--register-unsafely-without-email"])
            .args(["--server", &self.setting.pebble.directory()])
            .args(["--manual", "--preferred-challenges", "dns"])
            .arg("--manual-auth-hook")
            .arg(&self.hook)
            .args(["--key-type", wanted.key_type("rsa", "ecdsa")]);
        for name in &wanted.names {
            command.args(["-d", name]);
        }
        run(&mut command).await.map(drop)
    }

    /// Lets certbot renew a lineage now.
    pub(super) async fn renew_by_certbot(&self, root: &Path, lineage: &str) -> Result<()> {
        let mut command = self.certbot_command("renew", root);
        command.args(["--force-renewal", "--no-random-sleep-on-renew"]);
        run(command.args(["--cert-name", lineage])).await.map(drop)
    }

    fn certbot_command(&self, what: &str, root: &Path) -> Command {
        let mut command = Command::new(&self.certbot);
        command.args([what, "--non-interactive"]);
        for (option, folder) in [
            ("--config-dir", "etc/letsencrypt"),
            ("--work-dir", "var/lib/letsencrypt"),
            ("--logs-dir", "var/log/letsencrypt"),
        ] {
            command.arg(option).arg(root.join(folder));
        }
        command.env("REQUESTS_CA_BUNDLE", self.setting.pebble.root());
        command
    }

    /// Gets certificates by dehydrated, whose folder is `/var/lib/dehydrated` below `root`.
    pub(super) async fn dehydrated(&self, root: &Path, all: &[Wanted]) -> Result<()> {
        let (folder, config) = (root.join(DEHYDRATED), root.join("config"));
        fs::create_dir_all(&folder)?;
        let text = format!(
            "CA=\"{ca}\"\nCURL_OPTS=\"--cacert {root}\"\nBASEDIR=\"{folder}\"\n\
             CHALLENGETYPE=\"dns-01\"\nHOOK=\"{hook}\"\nKEY_ALGO=prime256v1\n",
            ca = self.setting.pebble.directory(),
            root = self.setting.pebble.root().display(),
            folder = folder.display(),
            hook = self.hook.display(),
        );
        fs::write(&config, text)?;
        let mut domains = String::new();
        for Wanted {
            alias,
            names,
            is_rsa,
        } in all
        {
            domains += &format!("{} > {alias}\n", names.join(" "));
            if *is_rsa {
                let own = folder.join("certs").join(alias);
                fs::create_dir_all(&own)?;
                fs::write(own.join("config"), "KEY_ALGO=rsa\nKEYSIZE=2048\n")?;
            }
        }
        fs::write(folder.join("domains.txt"), domains)?;
        for what in [&["--register", "--accept-terms"][..], &["--cron"]] {
            let mut command = Command::new("dehydrated");
            command.args(what).arg("--config").arg(&config);
            run(&mut command).await?;
        }
        Ok(())
    }

    /// Gets a certificate by lego, whose folder is `/etc/lego` below `root`.
    pub(super) async fn lego(&self, root: &Path, wanted: &Wanted) -> Result<()> {
        let dns = self.setting.pebble.challenges().dns_port();
        let mut command = Command::new("lego");
        command
            .args(["--accept-tos", "--email", "admin@shop.example"])
            .args(["--server", &self.setting.pebble.directory()])
            .args(["--key-type", wanted.key_type("rsa2048", "ec256")])
            .args(["--dns", "exec", "--dns.disable-cp"])
            .args(["--dns.resolvers", &format!("127.0.0.1:{dns}")])
            .arg("--path")
            .arg(root.join("etc/lego"));
        for name in &wanted.names {
            command.args(["--domains", name]);
        }
        command
            .arg("run")
            .env("LEGO_CA_CERTIFICATES", self.setting.pebble.root())
            .env("LEGO_DISABLE_CNAME_SUPPORT", "true")
            .env("EXEC_PATH", &self.hook)
            .env("EXEC_POLLING_INTERVAL", "1")
            // Between two names it waits for a minute otherwise.
            .env("EXEC_SEQUENCE_INTERVAL", "1");
        run(&mut command).await.map(drop)
    }

    /// Makes a command of the documentation, for a folder that stands for the root and for
    /// the home.
    pub(super) fn shell(&self, text: &str, root: &Path, store: &Path) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command
            .args(["-c", text])
            .current_dir(store)
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env("HOME", root)
            .kill_on_drop(true);
        command
    }
}

impl Wanted {
    fn key_type(&self, rsa: &'static str, ecdsa: &'static str) -> &'static str {
        if self.is_rsa { rsa } else { ecdsa }
    }
}

/// Runs a command, which must succeed. Returns what it printed.
pub(super) async fn run(command: &mut Command) -> Result<String> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let shown = format!("{:?}", command.as_std());
    let output = timeout(PATIENCE, command.output()).await;
    let output = output.with_context(|| format!("{shown}: not in time"))?;
    let output = output.with_context(|| shown.clone())?;
    let [out, err] = [output.stdout, output.stderr].map(|text| lossy(&text));
    ensure!(
        output.status.success(),
        "{shown}: {}\n{out}{err}",
        output.status
    );
    Ok(out)
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Folder of dehydrated below its root.
pub(super) const DEHYDRATED: &str = "var/lib/dehydrated";
const HOOK: &str = include_str!("hook.sh");
/// Far more than all certificates of a tool take.
const PATIENCE: Duration = Duration::from_mins(5);
