//! Tenants apart: their files, sockets, sessions and lines in the log.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::client::{Client, Protocol, whole};
use super::counts::{Counts, Judged};
use super::setting::{Setting, TENANTS, Tenant};
use crate::hosting::{Host, Hosting};

pub(super) async fn run(setting: &Setting, counts: &Counts) -> Result<()> {
    for (number, tenant) in (FIRST..).zip(&TENANTS) {
        let mut client = Client::new(setting, tenant, tenant.php, Protocol::Two, number);
        if setting.is_root {
            let judged = spy(setting, &mut client).await;
            counts.note(&format!("a spy of {}", tenant.name), judged);
        }
        let judged = foreign_session(setting, &mut client).await;
        counts.note(
            &format!("{} with another tenant's session", tenant.name),
            judged,
        );
        complain(setting, &mut client).await?;
    }
    Ok(())
}

/// Lets a script try what its user may not: the other tenant's files and sockets, and the
/// server's.
async fn spy(setting: &Setting, client: &mut Client<'_>) -> Judged {
    let other = client.tenant.other();
    let www = setting.www(other);
    let mut files: Vec<_> = ["public/page.php", "lib/app.php", "tenant", "data/users.db"]
        .map(|name| www.join(name))
        .into();
    files.extend(["hosts.db", "master.key"].map(|name| setting.hosting.folder().join(name)));
    let mut query = String::new();
    for file in files {
        query += &format!("&files[]={}", file.display());
    }
    query += &format!("&folders[]={}", www.display());
    for socket in setting.sockets(other) {
        query += &format!("&sockets[]={}", socket.display());
    }
    // The other tenant's script has just run, and lies in a cache that pools may share.
    let mut ran = Client::new(setting, other, other.php, Protocol::One, FIRST - 1);
    ran.page().await?;
    let query = query.replace('[', "%5B").replace(']', "%5D");
    client
        .get(&format!("/spy.php?{query}"))
        .await?
        .is(200, b"[]")
}

/// Uses a session of the other tenant, which must be nobody's here.
async fn foreign_session(setting: &Setting, client: &mut Client<'_>) -> Judged {
    let other = client.tenant.other();
    let mut victim = Client::new(setting, other, other.php, Protocol::One, FIRST - 2);
    victim.visit(super::visits::Visit::Session).await?;
    let cookie = victim.session.map(|(cookie, _)| cookie).unwrap_or_default();
    let asking = Request::get("/login.php").header("cookie", cookie);
    let answer = client.ask(asking, whole(Bytes::new())).await?;
    answer.is(401, b"nobody\n")
}

/// Lets a script write to standard error, which the log must have with host and tenant.
async fn complain(setting: &Setting, client: &mut Client<'_>) -> Result<()> {
    let Tenant { name, php, .. } = *client.tenant;
    let begun = Instant::now();
    // Two tenants may share the ten seconds of a line.
    while begun.elapsed() < LINE {
        let answer = client.get("/log.php").await;
        let answer = answer.map_err(|fault| anyhow::anyhow!("{fault:?}"))?;
        ensure!(answer.body == "logged\n", "told {}", answer.start());
        let log = setting.server.log_text();
        let mut lines = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let is_own = |line: &Value| {
            let fields = &line["fields"];
            let text = fields["text"].as_str().unwrap_or_default();
            text.contains(&format!("complaint of {name} "))
                && fields["tenant"] == name
                && fields["host"] == php
        };
        if lines.any(|line| is_own(&line)) {
            return Ok(());
        }
        sleep(POLL).await;
    }
    anyhow::bail!("no line of {name} in:\n{}", setting.server.tail())
}

/// Lets `sekisho check` name hosts of two tenants with one common pool.
pub(super) async fn check(binary: &Path) -> Result<String> {
    let hosting = Hosting::new(binary).await?;
    let socket = format!("unix:{}/common.sock", hosting.folder().display());
    let hosts = TENANTS.map(|tenant| Host {
        name: tenant.php.to_owned(),
        tenant: tenant.name.to_owned(),
        site: json!({ "root": hosting.pages(), "fastcgi": socket }),
        also: Vec::new(),
    });
    hosting.put(&hosts).await?;
    let allow = [hosting.pages().display().to_string(), socket];
    hosting.configure(&allow, "")?;
    let mut command = Command::new(hosting.binary());
    let checked = command.arg("check").current_dir(hosting.folder()).output();
    let checked = checked.context("sekisho check")?;
    let text = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
    let names = TENANTS.iter().all(|tenant| text.contains(tenant.php));
    ensure!(
        names && text.contains("2 hosts have a `fastcgi` server"),
        "sekisho check does not name the hosts of a common pool:\n{text}"
    );
    Ok("sekisho check names both hosts of a pool that two tenants share".to_owned())
}

/// Number of the first client.
const FIRST: usize = 3000;
const POLL: Duration = Duration::from_millis(200);
/// Longer than one line keeps others out.
const LINE: Duration = Duration::from_secs(30);
