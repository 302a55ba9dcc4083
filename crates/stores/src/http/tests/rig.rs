//! A store before a real endpoint.

use std::time::Duration;

use sekisho_testkit::{Answer as Says, Endpoint, Key, Pair, Speaks, TestCa};
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::Options;
use crate::http::{DEADLINE, Http};
use sekisho_certs::credential::Secret;
use sekisho_certs::host::HostName;
use sekisho_certs::seal::OpenKey;
use sekisho_certs::store::{Answer, Found, Result, Store, StoreError};

pub(super) struct Rig {
    pub(super) ca: TestCa,
    pub(super) endpoint: Endpoint,
    pub(super) store: Http,
    pub(super) server: Pair,
    folder: TempDir,
}

impl Rig {
    /// Over TLS, with HTTP/2 or without.
    pub(super) fn new(http2: bool) -> Self {
        Self::with(http2, DEADLINE)
    }

    pub(super) fn with(http2: bool, deadline: Duration) -> Self {
        let ca = TestCa::new();
        let server = ca.issue(&["127.0.0.1"], Key::P256);
        let endpoint = Endpoint::start(match http2 {
            true => Speaks::Http2(&server),
            false => Speaks::Http1(&server),
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), ca.root_pem()).unwrap();
        let options = Options {
            ca: Some(folder.path().join("ca.pem")),
            ..Options::default()
        };
        let url = format!("https://{}/{{host}}", endpoint.address);
        let store = Http::new(url.parse().unwrap(), &options, deadline, Handle::current()).unwrap();
        Self {
            ca,
            endpoint,
            store,
            server,
            folder,
        }
    }

    /// Another store before the same endpoint.
    pub(super) fn store(
        &self,
        template: &str,
        options: &Options,
        deadline: Duration,
    ) -> Result<Http> {
        let options = Options {
            ca: Some(self.folder.path().join("ca.pem")),
            ..options.clone()
        };
        Http::new(
            template.parse().unwrap(),
            &options,
            deadline,
            Handle::current(),
        )
    }

    /// A new pair for the name, and its bundle behind `stem`.
    pub(super) fn put(&self, stem: &str) -> Pair {
        self.put_with(stem, |answer| answer)
    }

    pub(super) fn put_with(&self, stem: &str, change: impl Fn(Says) -> Says) -> Pair {
        let pair = self.ca.issue(&["a.example"], Key::P256);
        self.says(stem, change(Says::ok(bundle(&pair))));
        pair
    }

    pub(super) fn says(&self, stem: &str, answer: Says) {
        self.endpoint.put(&format!("/{stem}"), answer);
    }

    pub(super) async fn find(&self, name: &str) -> Result<Answer<OpenKey>> {
        find(&self.store, name).await
    }

    pub(super) async fn found(&self, name: &str) -> Found<OpenKey> {
        match self.find(name).await.unwrap() {
            Answer {
                found: Some(found), ..
            } => *found,
            Answer { found: None, .. } => panic!("{name} is absent"),
        }
    }

    pub(super) async fn absent(&self, name: &str) -> bool {
        self.find(name).await.unwrap().found.is_none()
    }

    pub(super) async fn failed(&self, name: &str) -> StoreError {
        self.find(name).await.unwrap_err()
    }

    pub(super) fn times(&self, stem: &str) -> usize {
        self.endpoint.times(&format!("/{stem}"))
    }
}

pub(super) async fn find(store: &Http, name: &str) -> Result<Answer<OpenKey>> {
    store.find(&HostName::parse(name).unwrap()).await
}

pub(super) fn bundle(pair: &Pair) -> String {
    pair.chain_pem() + &pair.key_pem()
}

/// Short enough for a test to wait for, long enough for a busy machine.
pub(super) const HASTY: Duration = Duration::from_millis(500);

pub(super) fn with_token(token: &str) -> Options {
    Options {
        token: Some(Secret::new(token.as_bytes().to_vec())),
        ..Options::default()
    }
}
