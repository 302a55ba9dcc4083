//! Directives of nginx beside sites that say the same (docs/sites.md, "Forty directives"):
//! to the same requests, both servers give the same answers.

mod files;
mod nginx;

use std::fs;
use std::io::Read as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::Request;
use http::header::{CONTENT_ENCODING, HOST};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use crate::hosting::{Client, Host, Hosting};
use nginx::Nginx;

/// Row of the table, with the requests that show it.
struct Row {
    number: u8,
    /// Text of nginx's `server` block, in which `FOLDER` stands for the folder of files.
    nginx: &'static str,
    /// The site, likewise.
    site: &'static str,
    /// Requests of which the bodies are compared, too.
    asked: &'static [Asked],
    /// Requests whose answers have bodies in words of their own, such as errors.
    refused: &'static [Asked],
    /// Fields that both answers have with the same value, or that both lack.
    fields: &'static [&'static str],
}

/// Method and path of a request, and its fields beside the host.
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
        refused: &[],
        fields: &["content-type", "content-length", "location"],
    };

    fn host(&self) -> String {
        format!("row{}.beside.test", self.number)
    }
}

/// Asks both servers; returns what to say.
pub(super) async fn run(binary: &Path) -> Result<String> {
    let hosting = Hosting::new(binary).await?;
    let folder = hosting.pages();
    files::write(&folder)?;
    let rows: Vec<&Row> = files::ROWS.iter().collect();
    let text = folder.display().to_string();
    let hosts = rows.iter().map(|row| {
        let site = row.site.replace("FOLDER", &text);
        Ok(Host {
            name: row.host(),
            tenant: "beside".to_owned(),
            site: serde_json::from_str(&site).with_context(|| format!("row {}", row.number))?,
            also: Vec::new(),
        })
    });
    hosting.put(&hosts.collect::<Result<Vec<_>>>()?).await?;
    let nginx = Nginx::start(&hosting, &rows).await?;
    let server = hosting.serve("workers = 1").await?;
    let ours = hosting.client(&server, "http/1.1")?;
    let mut theirs = ours.clone();
    theirs.server = nginx.address;
    let mut requests = 0;
    for row in &rows {
        for asked in row.asked.iter().chain(row.refused) {
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
    server.tell_to_end()?;
    server.ended().await?;
    Ok(format!(
        "{} directives of nginx, {requests} requests: a site gives the same answers",
        rows.len()
    ))
}

/// Sends a request over a connection of its own.
async fn ask(client: &Client, row: &Row, asked: &Asked) -> Result<Told> {
    let (method, path, fields) = *asked;
    let host = row.host();
    let exchange = async {
        let stream = client.connect(Ipv4Addr::LOCALHOST, &host).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(HOST, &host);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(Empty::<Bytes>::new())?;
        let (head, body) = sender.send_request(request).await?.into_parts();
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
            body: if is_coded { gunzip(&body)? } else { body.to_vec() },
        })
    };
    let told = timeout(DEADLINE, exchange).await.context("it hangs")?;
    let mut told = told.with_context(|| format!("row {}, {path}", row.number))?;
    if row.refused.contains(asked) {
        told.body.clear();
        told.fields.clear();
    }
    Ok(told)
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

const DEADLINE: Duration = Duration::from_secs(20);
