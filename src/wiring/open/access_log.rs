//! Opens the access log.

use std::sync::Arc;

use anyhow::Context;
use sekisho_server::access_log::{AccessLog, Settings, Target};

use crate::config::Config;
use crate::terminal::failure::Result;

/// Opens the access log; none without `[log] access`.
pub(crate) fn open(config: &Config) -> Result<Option<Arc<AccessLog>>> {
    let opened = config.access_log.as_ref().map(|settings| {
        let opened = AccessLog::start(settings);
        opened.with_context(|| problem(settings))
    });
    opened.transpose()
}

/// Checks that the access log can be opened.
pub(crate) fn check(config: &Config) -> Result<()> {
    let settings = config.access_log.as_ref();
    settings.map_or(Ok(()), |settings| {
        AccessLog::check(settings).with_context(|| problem(settings))
    })
}

fn problem(settings: &Settings) -> String {
    match &settings.target {
        Target::File(path) => format!("[log] access: {} can't be opened", path.display()),
        Target::Stdout => "[log] access: standard output can't be used".to_owned(),
    }
}
