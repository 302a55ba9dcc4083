//! Chromium echoes over WebSocket, by HTTP/1.1 and by HTTP/2 (RFC 8441).

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::browser::Driver;
use crate::hosting::{Host, Hosting, Kind, Upstream};
use crate::server::Server;

/// Echoes in a browser with HTTP/2 and in one without; returns what to say.
pub(super) async fn run(binary: &Path) -> Result<String> {
    let hosting = Hosting::new(binary).await?;
    let upstream = Upstream::start(Kind::Node, &hosting.upstreams()).await?;
    let site = json!({ "upstream": format!("http://{}", upstream.address) });
    // One certificate for hosts of two tenants: over HTTP/2 Chromium asks for both on one
    // connection, until it gets a 421.
    let hosts = [("one.test", "a", "two.test"), ("two.test", "b", "one.test")];
    let hosts = hosts.map(|(name, tenant, also)| Host {
        name: name.to_owned(),
        tenant: tenant.to_owned(),
        site: site.clone(),
        also: vec![also.to_owned()],
    });
    hosting.put(&hosts).await?;
    let server = hosting.serve("workers = 1").await?;
    let (address, _) = server.serving().context("it serves")?;
    let port = address.port();
    let driver = Driver::start(&hosting.upstreams(), &hosting.root()).await?;
    let mut said = Vec::new();
    for (protocol, arguments) in [("h2", &[][..]), ("http/1.1", &["--disable-http2"])] {
        let session = driver.open(arguments).await?;
        for host in ["one.test", "two.test"] {
            session
                .visit(&format!("https://{host}:{port}/page"))
                .await?;
            let page = session.run(PAGE, &[]).await?;
            let want = json!(["GET /page 0\n", protocol]);
            ensure!(page == want, "{host}: {page}");
        }
        let before = handshakes(&server).await?;
        let echoed = session
            .run(ECHO, &[&format!("wss://two.test:{port}/echo")])
            .await?;
        ensure!(
            echoed == json!(["hello", "0,255,7", 100]),
            "{protocol}: {echoed}"
        );
        let opened = handshakes(&server).await? - before;
        // By HTTP/2 it goes over the connection of the page.
        let want = if protocol == "h2" { 0.0 } else { 1.0 };
        ensure!(opened == want, "{protocol}: {opened} more connections");
        session.close().await?;
        said.push(protocol);
    }
    server.tell_to_end()?;
    server.ended().await?;
    Ok(format!(
        "WebSocket echoed in Chromium by {}",
        said.join(" and ")
    ))
}

/// Returns the handshakes that the server has finished.
async fn handshakes(server: &Server) -> Result<f64> {
    let metrics = server.metrics().await?;
    let count = |result| metrics.value(&format!("sekisho_handshakes_total{{result=\"{result}\"}}"));
    Ok(count("full")? + count("resumed")?)
}

/// Returns the page's text and its protocol.
const PAGE: &str = "\
const done = arguments[arguments.length - 1];
const [page] = performance.getEntriesByType('navigation');
done([document.body.innerText, page.nextHopProtocol]);
";

/// Sends a text, bytes, and a hundred numbers; returns what came back.
const ECHO: &str = "\
const done = arguments[arguments.length - 1];
const socket = new WebSocket(arguments[0]);
socket.binaryType = 'arraybuffer';
const back = [];
let numbers = 0;
socket.onopen = () => {
  socket.send('hello');
  socket.send(new Uint8Array([0, 255, 7]));
  for (let number = 0; number < 100; number += 1) socket.send(String(number));
};
socket.onmessage = (event) => {
  if (back.length === 0) back.push(event.data);
  else if (back.length === 1) back.push(new Uint8Array(event.data).join(','));
  else if (event.data === String(numbers)) numbers += 1;
  if (numbers === 100) { back.push(numbers); socket.close(); }
};
socket.onclose = () => done(back);
socket.onerror = () => done('error');
";
