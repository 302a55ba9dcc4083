//! Server, php-fpm and fcgiwrap with the application of two tenants.

use std::cell::RefCell;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::process::{geteuid, getuid};
use sekisho_testkit::services::{FcgiWrap, PhpFpm, Pool};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::hosting::{Host, Hosting};
use crate::server::Server;

/// Everything that runs, and its folders.
pub(super) struct Setting {
    pub(super) hosting: Hosting,
    pub(super) server: Server,
    /// None while it is restarted.
    pub(super) php: RefCell<Option<PhpFpm>>,
    /// Folder that all users may enter, with `www/{tenant}` and `run`.
    folder: TempDir,
    _fcgiwraps: Vec<FcgiWrap>,
    pub(super) is_root: bool,
}

/// Tenant with an application, a pool and CGI programs of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tenant {
    pub(super) name: &'static str,
    /// Host whose scripts php-fpm runs.
    pub(super) php: &'static str,
    /// Host of the same application, some of whose connections to php-fpm are kept.
    pub(super) kept: &'static str,
    /// Host whose programs fcgiwrap runs.
    pub(super) cgi: &'static str,
    /// User of its scripts, if this process is root: of no account of the machine.
    user: u32,
}

pub(super) const TENANTS: [Tenant; 2] = [
    Tenant {
        name: "acme",
        php: "php.acme.test",
        kept: "kept.acme.test",
        cgi: "cgi.acme.test",
        user: 61_001,
    },
    Tenant {
        name: "umbrella",
        php: "php.umbrella.test",
        kept: "kept.umbrella.test",
        cgi: "cgi.umbrella.test",
        user: 61_002,
    },
];

impl Tenant {
    pub(super) fn user(&self) -> u32 {
        match geteuid().is_root() {
            true => self.user,
            false => getuid().as_raw(),
        }
    }

    /// Returns the other one.
    pub(super) fn other(&self) -> &'static Self {
        &TENANTS[usize::from(self.name == TENANTS[0].name)]
    }
}

impl Setting {
    /// Starts everything, beside so many hosts of other tenants.
    pub(super) async fn new(binary: &Path, others: usize) -> Result<Self> {
        let everyone = Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new()
            .prefix("sekisho-php-cgi-")
            .permissions(everyone)
            .tempdir()?;
        fs::create_dir(folder.path().join("run"))?;
        for tenant in &TENANTS {
            install(&folder.path().join("www").join(tenant.name), tenant)?;
        }
        let pools = TENANTS.map(|tenant| pool(folder.path(), &tenant));
        let fcgiwraps = TENANTS.iter().map(|tenant| {
            let socket = folder.path().join(format!("run/{}.cgi.sock", tenant.name));
            FcgiWrap::start(tenant.user(), &socket, PROGRAMS)
        });
        let fcgiwraps = fcgiwraps.collect();
        let hosting = Hosting::new(binary).await?;
        fs::write(hosting.pages().join("index.html"), OTHER_PAGE)?;
        hosting.put(&hosts(folder.path(), &hosting, others)).await?;
        let at = folder.path().display();
        let allow = [
            hosting.pages().display().to_string(),
            format!("{at}/www/{{tenant}}"),
            format!("unix:{at}/run/{{tenant}}.sock"),
            format!("unix:{at}/run/{{tenant}}.cgi.sock"),
        ];
        let server = hosting.serve_allowing(&allow, "").await?;
        Ok(Self {
            php: RefCell::new(Some(PhpFpm::start(&pools))),
            hosting,
            server,
            folder,
            _fcgiwraps: fcgiwraps,
            is_root: geteuid().is_root(),
        })
    }

    /// Returns the folder of a tenant's application.
    pub(super) fn www(&self, tenant: &Tenant) -> PathBuf {
        self.folder.path().join("www").join(tenant.name)
    }

    /// Returns the sockets of a tenant.
    pub(super) fn sockets(&self, tenant: &Tenant) -> [PathBuf; 2] {
        ["sock", "cgi.sock"].map(|end| {
            let name = format!("run/{}.{end}", tenant.name);
            self.folder.path().join(name)
        })
    }

    /// Ends php-fpm and starts it again, beside the tasks of this thread.
    pub(super) async fn restart_php(&self) -> Result<()> {
        let php = self.php.take();
        let mut php = php.context("it runs")?;
        let restarting = tokio::task::spawn_blocking(move || {
            php.restart();
            php
        });
        let php = restarting.await?;
        self.php.replace(Some(php));
        Ok(())
    }

    pub(super) async fn end(&self) -> Result<()> {
        let server = &self.server;
        ensure!(server.pid().is_ok(), "the server ended:\n{}", server.tail());
        server.tell_to_end()?;
        server.ended().await
    }
}

/// Writes a tenant's copy of the application, which its user alone may read.
fn install(folder: &Path, tenant: &Tenant) -> Result<()> {
    for (name, text) in FILES {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::write(&path, text)?;
        if name.ends_with(".cgi") {
            fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        }
    }
    fs::write(folder.join("tenant"), format!("{}\n", tenant.name))?;
    let page = format!("static page of {}\n", tenant.name);
    fs::write(folder.join("public/style.css"), page)?;
    for name in ["data", "data/sessions", "data/tmp", "go"] {
        fs::create_dir(folder.join(name))?;
    }
    if geteuid().is_root() {
        for path in ["", "data", "data/sessions", "data/tmp"] {
            chown(folder.join(path), Some(tenant.user), Some(tenant.user))?;
        }
    }
    fs::set_permissions(folder, Permissions::from_mode(0o750))?;
    Ok(())
}

fn pool(folder: &Path, tenant: &Tenant) -> Pool {
    let data = folder.join("www").join(tenant.name).join("data");
    let below = |name: &str| data.join(name).display().to_string();
    Pool {
        name: tenant.name.to_owned(),
        user: tenant.user,
        socket: folder.join(format!("run/{}.sock", tenant.name)),
        children: CHILDREN,
        values: vec![
            ("session.save_path", below("sessions")),
            ("sys_temp_dir", below("tmp")),
            ("upload_tmp_dir", below("tmp")),
            ("post_max_size", "64M".to_owned()),
            ("upload_max_filesize", "64M".to_owned()),
        ],
    }
}

fn hosts(folder: &Path, hosting: &Hosting, others: usize) -> Vec<Host> {
    let at = folder.display();
    let host = |name: &str, tenant: &str, site: Value| Host {
        name: name.to_owned(),
        tenant: tenant.to_owned(),
        site,
        also: Vec::new(),
    };
    let mut hosts = Vec::new();
    for tenant in &TENANTS {
        let php = |keep: u32| {
            json!({
                "root": format!("{at}/www/{{tenant}}/public"),
                "fastcgi": {
                    "servers": [format!("unix:{at}/run/{{tenant}}.sock")],
                    "connections": CHILDREN,
                    "keep": keep,
                },
                "try": ["{path}", "/index.php"],
            })
        };
        let cgi = json!({
            "root": format!("{at}/www/{{tenant}}/cgi"),
            "fastcgi": {
                "servers": [format!("unix:{at}/run/{{tenant}}.cgi.sock")],
                "scripts": [".cgi"],
                "connections": PROGRAMS,
            },
        });
        hosts.push(host(tenant.php, tenant.name, php(0)));
        hosts.push(host(tenant.kept, tenant.name, php(KEPT)));
        hosts.push(host(tenant.cgi, tenant.name, cgi));
    }
    let pages = json!({ "root": hosting.pages() });
    hosts.extend((0..others).map(|number| {
        let tenant = format!("t{number}");
        host(&other_host(number), &tenant, pages.clone())
    }));
    hosts
}

/// Returns the host of another tenant, which has a static page.
pub(super) fn other_host(number: usize) -> String {
    format!("h{number}.others.test")
}

pub(super) const OTHER_PAGE: &str = "a page of another tenant\n";
/// `pm.max_children` of each pool, and `connections` of its site.
pub(super) const CHILDREN: u32 = 5;
/// Unused connections to a pool that are kept for the host that keeps some.
const KEPT: u32 = 2;
/// Processes of each fcgiwrap.
const PROGRAMS: u32 = 2;

const FILES: [(&str, &str); 13] = [
    ("lib/app.php", include_str!("app/lib/app.php")),
    ("public/index.php", include_str!("app/public/index.php")),
    ("public/page.php", include_str!("app/public/page.php")),
    ("public/setup.php", include_str!("app/public/setup.php")),
    ("public/login.php", include_str!("app/public/login.php")),
    ("public/upload.php", include_str!("app/public/upload.php")),
    (
        "public/download.php",
        include_str!("app/public/download.php"),
    ),
    ("public/events.php", include_str!("app/public/events.php")),
    ("public/params.php", include_str!("app/public/params.php")),
    ("public/log.php", include_str!("app/public/log.php")),
    ("public/hang.php", include_str!("app/public/hang.php")),
    ("public/spy.php", include_str!("app/public/spy.php")),
    ("cgi/env.cgi", include_str!("app/cgi/env.cgi")),
];
