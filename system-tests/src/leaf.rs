//! Leaves of certificates, each known by the SHA-256 of its DER in hexadecimal digits: what a
//! server shows for a name, and what openssl reads.

use std::process::Stdio;

use anyhow::{Context, Result, anyhow, ensure};
use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use sekisho_bench::load::client::Client;

/// Asks a server for a name. The client verifies chain and name.
pub(crate) async fn shown(client: &Client, name: &str) -> Result<String> {
    let stream = client.open(name).await;
    let stream = stream.map_err(|failure| anyhow!("{name}: {}", failure.kind()))?;
    let chain = stream.get_ref().1.peer_certificates();
    let leaf = chain.and_then(<[_]>::first).context("no certificate")?;
    Ok(digest_of(leaf))
}

/// Computes the digest of a certificate.
pub(crate) fn digest_of(der: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, der).as_ref())
}

/// Lets openssl read the first certificate of a PEM text.
pub(crate) async fn read_by_openssl(pem: &str) -> Result<String> {
    let mut child = Command::new("openssl")
        .args(["x509", "-noout", "-fingerprint", "-sha256"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("openssl")?;
    let mut input = child.stdin.take().context("it is piped")?;
    // A few KiB, which a pipe holds.
    input.write_all(pem.as_bytes()).await?;
    drop(input);
    let output = child.wait_with_output().await?;
    ensure!(output.status.success(), "openssl reads no certificate");
    fingerprint(&String::from_utf8_lossy(&output.stdout)).context("openssl tells no fingerprint")
}

/// Reads `sha256 Fingerprint=AB:CD:…`.
fn fingerprint(line: &str) -> Option<String> {
    let (_, digits) = line.trim().split_once("Fingerprint=")?;
    Some(digits.replace(':', "").to_lowercase())
}

#[cfg(test)]
mod tests {
    use sekisho_testkit::{Key, TestCa};

    use super::*;

    #[tokio::test]
    async fn openssl_and_we_agree() {
        let pair = TestCa::new().issue(&["a.example"], Key::P256);
        let read = read_by_openssl(&pair.chain_pem()).await.unwrap();
        assert_eq!(read, digest_of(&pair.chain[0]));
        assert!(read_by_openssl("nothing").await.is_err());
    }
}
