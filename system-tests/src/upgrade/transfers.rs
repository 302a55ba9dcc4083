//! Operations on a connection of their own: visits, downloads and uploads.

use std::time::Duration;

use sekisho_bench::load::Failure;
use sekisho_bench::load::client::Client;
use tokio::time::{Instant, sleep};

use super::content::Content;
use super::field::Field;
use super::generations;
use super::http1::{Connection, Reading};
use super::setting::{APP, FILES, MARKER};
use super::upstream::taken_text;

/// Connects, and asks which configuration answers.
pub(super) async fn visit(field: &Field, client: &Client) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut connection = Connection::open(client, MARKER).await?;
    let request = format!("GET / HTTP/1.1\r\nHost: {MARKER}\r\nConnection: close\r\n\r\n");
    connection.send(request.as_bytes()).await?;
    let head = connection.head().await?;
    if head.status != 308 {
        return Err(Failure::Status(head.status));
    }
    connection.exactly(head.length.unwrap_or_default()).await?;
    connection.closed().await?;
    let generation = head.location.as_deref().and_then(generations::parse);
    let generation = generation.ok_or(Failure::Response("another redirect"))?;
    field.generations.see(generation, begun)
}

/// Downloads a file, which must have these bytes.
pub(super) async fn download(
    client: &Client,
    path: &str,
    expected: &[u8],
    reading: Reading,
) -> Result<(), Failure> {
    let mut connection = Connection::open(client, FILES).await?;
    let head = connection.ask(FILES, path).await?;
    connection.body(&head, expected, reading).await
}

/// Sends a body piece by piece to the upstream, which says whether it came.
pub(super) async fn upload(client: &Client, content: &Content) -> Result<(), Failure> {
    let mut connection = Connection::open(client, APP).await?;
    let body = content.upload();
    let length = body.len();
    let head = format!("POST /upload HTTP/1.1\r\nHost: {APP}\r\nContent-Length: {length}\r\n\r\n");
    connection.send(head.as_bytes()).await?;
    for piece in body.chunks(length / UPLOAD_PIECES) {
        connection.send(piece).await?;
        sleep(UPLOAD_PAUSE).await;
    }
    let head = connection.head().await?;
    let expected = taken_text(length);
    connection
        .body(&head, expected.as_bytes(), Reading::FAST)
        .await
}

/// Reads 4 MiB per second: the large file takes 8 s.
pub(super) const SLOWLY: Reading = Reading {
    piece: 64 << 10,
    pause: Duration::from_millis(15),
};

/// An upload takes some two seconds.
pub(super) const UPLOAD_PIECES: usize = 16;
pub(super) const UPLOAD_PAUSE: Duration = Duration::from_millis(120);
