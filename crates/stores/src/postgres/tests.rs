//! Tests of what only a database can do: be shared, stopped, slow, newer, empty.

mod columns;
mod lookups;
mod outages;
mod plans;
mod schemas;
mod script_database;
mod secured;
mod together;
mod trips;
mod workers;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sekisho_testkit::services;

use super::*;
use sekisho_certs::store::StoreError;
use sekisho_testkit::contract::fixture::{host_with, sealed};

/// A new database on the shared server.
fn database() -> String {
    services::Postgres::shared().database()
}

/// The name of the database in a URL.
fn name_of(url: &str) -> &str {
    let rest = url.rsplit('/').next().unwrap();
    rest.split('?').next().unwrap()
}

fn open(url: &str, mode: Mode, options: &Options) -> Postgres {
    let options = Options {
        mode,
        ..options.clone()
    };
    let url = Url::parse(url, Path::new("/")).unwrap();
    Postgres::new(&url, &options, &Handle::current()).unwrap()
}

/// Bounds that a machine which is busy with other tests keeps.
fn patient() -> Options {
    let long = Duration::from_mins(1);
    Options {
        connect: long,
        read: long,
        write: long,
        ..Options::default()
    }
}

fn create(url: &str) -> Postgres {
    open(url, Mode::Create, &patient())
}

fn existing(url: &str) -> Postgres {
    open(url, Mode::Existing, &patient())
}

fn name(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

async fn finds(store: &Postgres, text: &str) -> bool {
    store.find(&name(text)).await.unwrap().found.is_some()
}

/// Far more than anything here takes.
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    let bound = Duration::from_secs(90);
    tokio::time::timeout(bound, future).await.expect("in time")
}
