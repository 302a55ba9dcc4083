//! Hosts with passwords: one under attack, and another tenant's.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};

use crate::flood::attacker::Target;
use crate::flood::visitor;

/// Users of the other tenant, each of whom comes once: their passwords are not remembered.
#[derive(Default)]
pub(super) struct Users(usize);

/// Returns a site whose pages are for users alone, with these hashes.
pub(super) fn site(pages: &Path, hash: &str) -> Value {
    let names = (0..USERS).map(|number| format!("user{number}"));
    let names = names.chain(["ann".to_owned()]);
    let users: Map<_, _> = names.map(|name| (name, json!(hash))).collect();
    json!({ "root": pages, "auth": { "users": users } })
}

/// Returns the other tenant's site: pages for all, and those of [`site`] below `/own`.
pub(super) fn beside(pages: &Path) -> Value {
    let mut own = site(pages, QUICK);
    own["path"] = json!("/own");
    own["strip"] = json!(true);
    json!({ "root": pages, "paths": [own] })
}

/// Makes the field of a user's request.
pub(super) fn fields(name: &str) -> String {
    let pair = BASE64.encode(format!("{name}:secret").as_bytes());
    format!("Authorization: Basic {pair}\r\n")
}

/// Has the server remember a password of the attacked host.
///
/// # Errors
/// If the user is not let in.
pub(super) async fn remember(attacked: &Target) -> Result<()> {
    let ann = with(attacked, &attacked.path, "ann");
    visitor(&ann).await.context("the attacked host's user")?;
    Ok(())
}

/// Sends good passwords under attack: one of the other tenant that is not remembered, and one
/// of the attacked host that is.
///
/// # Errors
/// If the server does not, or takes long.
pub(super) async fn visit(neighbour: &Target, attacked: &Target, users: &mut Users) -> Result<()> {
    users.0 += 1;
    let fresh = format!("user{}", users.0 % USERS);
    let took = visitor(&with(neighbour, "/own/", &fresh)).await;
    let took = took.context("another tenant's user")?;
    ensure!(took < MOST, "another tenant's user waited {took:?}");
    let took = visitor(&with(attacked, &attacked.path, "ann")).await;
    let took = took.context("the attacked host's user")?;
    ensure!(took < MOST, "a remembered user waited {took:?}");
    Ok(())
}

fn with(target: &Target, path: &str, user: &str) -> Target {
    Target {
        path: path.to_owned(),
        fields: fields(user),
        ..target.clone()
    }
}

/// Users of a host beside `ann`.
const USERS: usize = 200;
/// Longest time until a good password is let in.
const MOST: Duration = Duration::from_millis(500);
/// Hashes of `secret`: bcrypt with the usual cost, 10, and with cost 4.
pub(super) const SLOW: &str = "$2y$10$XeNutuOLeh0mcShYuaSALevHoQc4G7JswxJjAZXyf90PZLnCquCQW";
const QUICK: &str = "$2y$04$QhtKrt71FtdqBMwDWBor2.kkDYI9keh2lwOa58YFT3pBtiHphO.Iq";
