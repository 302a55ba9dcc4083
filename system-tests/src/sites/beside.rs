//! Directives of nginx beside sites that say the same (docs/sites.md, "Forty directives"):
//! to the same requests, both servers give the same answers.

mod balance;
mod files;
mod nginx;
mod proxy;
mod rules;
mod scripts;

use std::fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{CONTENT_ENCODING, HOST};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sekisho_testkit::services::free_ports;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use crate::hosting::{Client, Host, Hosting};
use nginx::Nginx;

/// Row of the table, with the requests that show it.
struct Row {
    number: u8,
    /// Text of nginx's `server` block, with the words of [`Places`].
    nginx: &'static str,
    /// The site, likewise.
    site: &'static str,
    /// Requests of which the bodies are compared, too.
    asked: &'static [Asked],
    /// Requests of which only status and fields are compared.
    moved: &'static [Asked],
    /// Requests whose answers have bodies in words of their own, such as errors.
    refused: &'static [Asked],
    /// Fields that both answers have with the same value, or that both lack.
    fields: &'static [&'static str],
    /// The requests come over plain HTTP.
    is_plain: bool,
}

/// What words of the rows stand for.
struct Places {
    /// `FOLDER`: folder of files.
    folder: String,
    /// `UPSTREAM`: port of a server of nginx that tells what it was asked.
    upstream: u16,
    /// `SCRIPTS`: port of a FastCGI server that tells what it was asked.
    scripts: u16,
    /// `SILENT`: port where nobody answers.
    silent: TcpListener,
    /// `DEAD`: port where nobody listens.
    dead: u16,
}

impl Places {
    fn fill(&self, text: &str) -> Result<String> {
        let silent = self.silent.local_addr()?.port();
        let text = text.replace("FOLDER", &self.folder);
        let text = text.replace("UPSTREAM", &self.upstream.to_string());
        let text = text.replace("SCRIPTS", &self.scripts.to_string());
        let text = text.replace("SILENT", &silent.to_string());
        Ok(text.replace("DEAD", &self.dead.to_string()))
    }
}

/// Method and path of a request, and its fields beside the host. [`LENGTH`] is no field: it
/// says how long the body is.
type Asked = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// What is compared of an answer.
#[derive(Debug, PartialEq)]
struct Told {
    status: u16,
    fields: Vec<Option<String>>,
    /// Body without its coding.
    body: Vec<u8>,
}

impl Row {
    const NONE: Self = Self {
        number: 0,
        nginx: "",
        site: "",
        asked: &[],
        moved: &[],
        refused: &[],
        fields: &["content-type", "content-length", "location"],
        is_plain: false,
    };

    fn host(&self) -> String {
        format!("row{}.beside.test", self.number)
    }
}

/// Asks both servers; returns what to say.
pub(super) async fn run(binary: &Path) -> Result<String> {
    let mut hosting = Hosting::new(binary).await?;
    hosting.plain = true;
    files::write(&hosting.pages())?;
    let [upstream, dead] = free_ports();
    let places = Places {
        folder: hosting.pages().display().to_string(),
        upstream,
        scripts: scripts::start().await?,
        silent: TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
        dead,
    };
    let all = [files::ROWS, rules::ROWS, proxy::ROWS, scripts::ROWS];
    let rows: Vec<&Row> = all.into_iter().flatten().collect();
    let hosts = rows.iter().map(|row| {
        let site = places.fill(row.site)?;
        Ok(Host {
            name: row.host(),
            tenant: "beside".to_owned(),
            site: serde_json::from_str(&site).with_context(|| format!("row {}", row.number))?,
            also: Vec::new(),
        })
    });
    hosting.put(&hosts.collect::<Result<Vec<_>>>()?).await?;
    let nginx = Nginx::start(&hosting, &rows, &places).await?;
    let server = hosting.serve("workers = 1").await?;
    let ours = hosting.client(&server, "http/1.1")?;
    let mut theirs = ours.clone();
    theirs.server = nginx.address;
    theirs.plain = nginx.plain;
    let mut requests = 0;
    for row in &rows {
        for asked in row.asked.iter().chain(row.moved).chain(row.refused) {
            let told = ask(&ours, row, asked).await?;
            let wanted = ask(&theirs, row, asked).await?;
            let number = row.number;
            ensure!(
                told == wanted,
                "row {number}, {asked:?}: {told:?}, nginx {wanted:?}"
            );
            requests += 1;
        }
    }
    let is_balanced = |row: &&&Row| row.number == balance::ROW;
    let row = rows.iter().find(is_balanced).context("a row")?;
    for client in [&ours, &theirs] {
        balance::check(client, row).await?;
    }
    server.tell_to_end()?;
    server.ended().await?;
    Ok(format!(
        "{} directives of nginx, {requests} requests: a site gives the same answers",
        rows.len()
    ))
}

/// Asks a server, and leaves out what is not compared.
async fn ask(client: &Client, row: &Row, asked: &Asked) -> Result<Told> {
    let mut told = tell(client, row, asked).await?;
    if !row.asked.contains(asked) {
        told.body.clear();
    }
    if row.refused.contains(asked) {
        told.fields.clear();
    }
    Ok(told)
}

/// Asks a server over a connection of its own.
async fn tell(client: &Client, row: &Row, asked: &Asked) -> Result<Told> {
    let exchange = async {
        let (_sender, response) = if row.is_plain {
            let stream = client.connect_plain(Ipv4Addr::LOCALHOST).await?;
            send(stream, row, asked).await?
        } else {
            let stream = client.connect(Ipv4Addr::LOCALHOST, &row.host()).await?;
            send(stream, row, asked).await?
        };
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        let value = |name: &&str| {
            let values = head.headers.get_all(*name).iter();
            let values: Vec<_> = values.map(|value| value.to_str().unwrap_or("?")).collect();
            (!values.is_empty()).then(|| values.join(", "))
        };
        let is_coded = head.headers.contains_key(CONTENT_ENCODING) && !body.is_empty();
        anyhow::Ok(Told {
            status: head.status.as_u16(),
            fields: row.fields.iter().map(value).collect(),
            body: if is_coded {
                gunzip(&body)?
            } else {
                body.to_vec()
            },
        })
    };
    let told = timeout(DEADLINE, exchange).await.context("it hangs")?;
    told.with_context(|| format!("row {}, {}", row.number, asked.1))
}

/// Sends a request over a new connection, which ends with what sends.
async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    row: &Row,
    (method, path, fields): &Asked,
) -> Result<(http1::SendRequest<Full<Bytes>>, Response<Incoming>)> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::builder().method(*method).uri(*path);
    let mut request = request.header(HOST, row.host());
    let mut body = Vec::new();
    for (name, value) in *fields {
        match *name {
            LENGTH => body = vec![b'x'; value.parse()?],
            name => request = request.header(name, *value),
        }
    }
    let request = request.body(Full::new(Bytes::from(body)))?;
    let response = sender.send_request(request).await?;
    Ok((sender, response))
}

fn gunzip(coded: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    GzDecoder::new(coded).read_to_end(&mut body)?;
    Ok(body)
}

/// Writes a file with a last write one minute ago, as a file that rests has.
fn write_old(path: &Path, content: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().context("a folder")?)?;
    fs::write(path, content)?;
    let then = std::time::SystemTime::now() - Duration::from_secs(60);
    let file = fs::File::options().write(true).open(path)?;
    Ok(file.set_modified(then)?)
}

const LENGTH: &str = "LENGTH";
const DEADLINE: Duration = Duration::from_secs(20);
