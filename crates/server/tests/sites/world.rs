//! Server whose hosts have sites of a test's choice, and its clients.

use std::fs;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, Response, Version};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sekisho_certs::store::{Change, ChangePage, LogId, LogPosition, Subject, What};
use sekisho_certs::{FeedState, Follower as _, Found, HostPattern, OpenKey, Site, Tenant};
use sekisho_server::Limits;
use sekisho_testkit::{Key, Pair, TestCa, client};
use tempfile::TempDir;
use tokio::sync::mpsc;

pub(crate) use crate::common::upstream::patiently;
use crate::common::{LIMITS, Running, Scripted, Setup, host, start};

pub(crate) const HOST: &str = "a.example";
pub(crate) const OTHER: &str = "b.example";
/// Host whose tenant's name is no visible ASCII.
pub(crate) const FOREIGN: &str = "c.example";
pub(crate) const BOTH: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

/// Running server with a folder of files.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    /// Folder of CGI programs, empty at first.
    pub(crate) programs: TempDir,
    pub(crate) running: Running,
    pub(crate) ca: TestCa,
    pair: Pair,
}

impl World {
    /// Starts a server whose host has this site, in which `FOLDER` stands for a
    /// folder with these files, and `PROGRAMS` for one of programs.
    pub(crate) fn new(site: &str, files: &[(&str, &str)]) -> Self {
        Self::with(LIMITS, &[(HOST, site)], files)
    }

    /// Starts a server with these limits, and hosts with these sites. That of [`OTHER`] is
    /// of another tenant.
    pub(crate) fn with(limits: Limits, sites: &[(&str, &str)], files: &[(&str, &str)]) -> Self {
        let [folder, programs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for (name, text) in files {
            write(&folder, name, text);
        }
        let ca = TestCa::new();
        let names: Vec<&str> = sites.iter().map(|(name, _)| *name).collect();
        let pair = ca.issue(&names, Key::P256);
        let records = sites.iter().map(|(name, site)| {
            let site = site.replace("PROGRAMS", programs.path().to_str().unwrap());
            record(&(*name, &*site), &pair, &folder)
        });
        let setup = Setup {
            allow: vec![
                "127.0.0.0/8".into(),
                folder.path().into(),
                format!("unix:{}/run/{{tenant}}", folder.path().display()).into(),
                format!("cgi:{}", programs.path().display()).into(),
            ],
            ..Setup::limits(limits)
        };
        let running = start(Scripted::new(records), &setup);
        Self {
            folder,
            programs,
            running,
            ca,
            pair,
        }
    }

    /// Gives a host another site.
    pub(crate) fn change(&self, host: &str, site: &str) {
        self.suspend(host, site, None);
    }

    /// Gives a host this site, and the page of a suspension, if there is one.
    pub(crate) fn suspend(&self, host: &str, site: &str, page: Option<&str>) {
        let mut record = record(&(host, site), &self.pair, &self.folder);
        record.record.suspended = page.map(|page| Site {
            format: 2,
            json: page.into(),
        });
        self.running.store.put(record);
        let (log, lookup) = (LogId([7; 16]), &self.running.lookup);
        lookup.restart(LogPosition {
            log,
            number: 0,
            mark: 0,
        });
        lookup.feed_is(FeedState::Healthy);
        lookup.apply(&ChangePage {
            log,
            last: 1,
            gap: false,
            mark_before: Some(0),
            mark_last: Some(0),
            changes: vec![Change {
                number: 1,
                subject: Subject::Host(HostPattern::parse(host).unwrap()),
                what: What::Put,
            }],
        });
    }

    /// Connects as a client of a host.
    pub(crate) async fn connect(&self, version: Version, host: &str) -> Client {
        let mut config = client::config(&self.ca);
        let is_two = version == Version::HTTP_2;
        if is_two {
            config.alpn_protocols = vec![b"h2".to_vec()];
        }
        let stream = client::connect(self.running.address, host, config).await;
        let io = TokioIo::new(stream.unwrap());
        let sender = if is_two {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            Sender::Two(sender)
        } else {
            let (sender, connection) = http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            Sender::One(sender)
        };
        let host = host.to_owned();
        Client { sender, host }
    }

    /// Sends one request on a connection of its own.
    pub(crate) async fn get(&self, version: Version, path: &str) -> Answer {
        self.connect(version, HOST).await.get(path).await
    }
}

/// Makes the record of a host.
fn record((name, site): &(&str, &str), pair: &Pair, folder: &TempDir) -> Found<OpenKey> {
    let site = site.replace("FOLDER", folder.path().to_str().unwrap());
    let mut found = host(name, &[(pair, Key::P256)]);
    let tenant = match *name {
        OTHER => "other",
        FOREIGN => "Müller",
        _ => "acme",
    };
    found.record.tenant = Tenant::parse(tenant).unwrap();
    found.record.site = Some(Site {
        format: 3,
        json: site.into(),
    });
    found
}

/// Writes a file with a last write one minute ago: the server caches it at once.
pub(crate) fn write(folder: &TempDir, name: &str, text: &str) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    let then = std::time::SystemTime::now() - Duration::from_secs(60);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(then).unwrap();
}

/// Client with one connection.
pub(crate) struct Client {
    sender: Sender,
    pub(crate) host: String,
}

pub(crate) type Upload = BoxBody<Bytes, io::Error>;

enum Sender {
    One(http1::SendRequest<Upload>),
    Two(http2::SendRequest<Upload>),
}

impl Client {
    /// Sends another name as the host that is asked for.
    pub(crate) fn ask_for(&mut self, host: &str) {
        self.host = host.to_owned();
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(Method::GET, path, &[]).await
    }

    /// Sends a request without a body.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Answer {
        let response = self.begin(method, path, fields, empty()).await.unwrap();
        Answer::of(response).await.unwrap()
    }

    /// Sends a request, and awaits the head of its answer.
    pub(crate) async fn begin(
        &mut self,
        method: Method,
        path: &str,
        fields: &[(&str, &str)],
        body: Upload,
    ) -> hyper::Result<Response<Incoming>> {
        let mut request = Request::builder().method(method);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await?;
                let request = request.uri(path).header("host", &self.host);
                patiently(sender.send_request(request.body(body).unwrap())).await
            }
            Sender::Two(sender) => {
                let request = request.uri(format!("https://{}{path}", self.host));
                patiently(sender.send_request(request.body(body).unwrap())).await
            }
        }
    }
}

/// Whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    response: Response<()>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) async fn of(response: Response<Incoming>) -> hyper::Result<Self> {
        let (head, body) = response.into_parts();
        let body = patiently(body.collect()).await?.to_bytes();
        Ok(Self {
            status: head.status.as_u16(),
            response: Response::from_parts(head, ()),
            body: String::from_utf8(body.to_vec()).unwrap(),
        })
    }

    /// Returns the values of a field, joined.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let values = self.response.headers().get_all(name).iter();
        let values: Vec<&str> = values.map(|value| value.to_str().unwrap()).collect();
        (!values.is_empty()).then(|| values.join("|"))
    }
}

/// Makes an empty body.
pub(crate) fn empty() -> Upload {
    Empty::new().map_err(|never| match never {}).boxed()
}

/// Makes a body of the pieces that are sent to it.
pub(crate) fn channel() -> (mpsc::Sender<Bytes>, Upload) {
    let (sender, pieces) = mpsc::channel::<Bytes>(4);
    let frames = stream::unfold(pieces, |mut pieces| async move {
        let piece = pieces.recv().await?;
        Some((Ok(Frame::data(piece)), pieces))
    });
    (sender, StreamBody::new(frames).boxed())
}
