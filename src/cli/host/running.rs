//! Asks the running server by which `[sites]` it judges.

use std::time::Duration;

use anyhow::Context;
use http::Method;
use serde_json::Value;

use crate::cli::admin::Admin;
use crate::config::Config;
use crate::terminal::failure::Result;

/// Tells the operator where the server of this configuration does not judge sites as the
/// command has: it reads `[sites]` at its start alone.
pub(super) async fn compare(config: &Config) {
    let file = config.file.display();
    let Some(address) = &config.listen.admin else {
        eprintln!(
            "note: servers read [sites] of {file} at their start; reload them after a change"
        );
        return;
    };
    match sites_of(config).await {
        Ok(digest) if digest == config.sites_digest() => {}
        Ok(_) => eprintln!(
            "warning: the server at {address} has read another [sites] than that of {file}; \
             run 'sekisho reload', or requests may get 503"
        ),
        Err(error) => eprintln!(
            "note: the server at {address} does not answer ({error:#}); servers read [sites] at \
             their start"
        ),
    }
}

/// Returns the digest that the admin listener shows.
async fn sites_of(config: &Config) -> Result<String> {
    let admin = Admin::of(config)?;
    let answer = admin.ask(Method::GET, "/healthz", PATIENCE).await?;
    let health: Option<Value> = serde_json::from_str(&answer.text).ok();
    let digest = health.as_ref().and_then(|health| health["sites"].as_str());
    let digest = digest.context("it shows no [sites]; it is of another version")?;
    Ok(digest.to_owned())
}

/// A server on this machine answers within milliseconds; a command must not hang on one
/// that does not.
const PATIENCE: Duration = Duration::from_secs(1);
