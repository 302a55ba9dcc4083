//! Documents that hold chain and key of a host: those of two libraries for nginx and OpenResty.

use std::path::PathBuf;

use data_encoding::BASE64;
use sekisho_certs::HostPattern;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::cli::cert::import::source::{Half, Names, Pair, Refusal};

/// Document of a host, JSON, in the fields of lua-resty-auto-ssl; else of lua-resty-acme.
#[derive(Deserialize)]
struct Document {
    #[serde(alias = "cert")]
    fullchain_pem: String,
    #[serde(alias = "pkey")]
    privkey_pem: String,
}

/// Returns the host of a key of lua-resty-auto-ssl, `[PREFIX:]NAME:latest`. Others hold older
/// certificates, challenges and locks.
pub(in crate::cli::cert::import) fn auto_ssl(key: &str) -> Option<String> {
    let name = key.strip_suffix(":latest")?;
    let (_, host) = name.rsplit_once(':').unwrap_or(("", name));
    Some(host.to_owned())
}

/// Returns the host of a key of lua-resty-acme, `[NAMESPACE]domain:TYPE:NAME`.
pub(in crate::cli::cert::import) fn resty_acme(key: &str) -> Option<String> {
    let (kind, host) = key.rsplit_once(':')?;
    let is_pair = kind.ends_with("domain:rsa") || kind.ends_with("domain:ecc");
    is_pair.then(|| host.to_owned())
}

/// Makes the pair of a host's document.
pub(in crate::cli::cert::import) fn pair(
    place: PathBuf,
    host: &str,
    document: &[u8],
) -> Result<Pair, Refusal> {
    let host = HostPattern::parse(host)
        .map_err(|error| Refusal::new(&place, "the key's name is no host", error.to_string()))?;
    let document: Document = serde_json::from_slice(document).map_err(|error| {
        let reason = format!("is no JSON with a chain and a key: {error}");
        Refusal::new(&place, "a document can't be read", reason)
    })?;
    let half = |pem: String| Half::Bytes(place.clone(), Zeroizing::new(pem.into_bytes()));
    Ok(Pair::new(
        Names::WithLeaf(vec![host]),
        half(document.fullchain_pem),
        half(document.privkey_pem),
    ))
}

/// Decodes a file's name of lua-resty-auto-ssl: `%3A` is a colon.
pub(super) fn decoded_percent(name: &str) -> Option<String> {
    let mut pieces = name.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Decodes a file's name of lua-resty-acme.
pub(super) fn decoded_base64(name: &str) -> Option<String> {
    String::from_utf8(BASE64.decode(name.as_bytes()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cli::cert::import::layout::Layout;

    #[test]
    fn only_the_latest_pair_of_a_host_is_taken() {
        for (key, host) in [
            ("a.example:latest", Some("a.example")),
            ("ssl:a.example:latest", Some("a.example")),
            ("a.example:1700000000", None),
            ("a.example:challenge:token", None),
            ("lock:a.example", None),
        ] {
            assert_eq!(auto_ssl(key).as_deref(), host, "{key}");
        }
        for (key, host) in [
            ("domain:rsa:a.example", Some("a.example")),
            ("shop-domain:ecc:*.a.example", Some("*.a.example")),
            ("account_key:rsa", None),
            ("domain:dsa:a.example", None),
            ("update_lock:domain:a.example", None),
        ] {
            assert_eq!(resty_acme(key).as_deref(), host, "{key}");
        }
    }

    #[test]
    fn keys_are_read_from_names_of_files() {
        let host = |layout: Layout, name: &str| layout.document(Path::new(name));
        for (layout, name, found) in [
            (Layout::AutoSsl, "a.example%3Alatest", Some("a.example")),
            (Layout::AutoSsl, "a.example%3alatest", Some("a.example")),
            (Layout::AutoSsl, "a.example%3A1700000000", None),
            (Layout::AutoSsl, "100%", None),
            (Layout::AutoSsl, "%é", None),
            (
                Layout::RestyAcme,
                "ZG9tYWluOnJzYTphLmV4YW1wbGU=",
                Some("a.example"),
            ),
            (Layout::RestyAcme, "README", None),
            (Layout::RestyAcme, "YWNjb3VudF9rZXk6cnNh", None),
            (Layout::Flat, "a.example%3Alatest", None),
        ] {
            assert_eq!(host(layout, name).as_deref(), found, "{layout} {name}");
        }
    }

    #[test]
    fn a_document_is_a_pair_of_its_host() {
        let place = || PathBuf::from("redis key x");
        for document in [
            r#"{"fullchain_pem":"C","privkey_pem":"K","cert_pem":"L","expiry":1}"#,
            r#"{"domain":"a.example","pkey":"K","cert":"C","type":"rsa","updated":1}"#,
        ] {
            let pair = pair(place(), "a.example", document.as_bytes()).unwrap();
            let host = HostPattern::parse("a.example").unwrap();
            assert_eq!(pair.names, Names::WithLeaf(vec![host]));
            assert!(matches!(pair.chain, Half::Bytes(_, bytes) if *bytes == b"C"));
        }
        for (host, document, reason) in [
            ("a b", "{}", "must not stand in a host name"),
            ("a.example", "{}", "missing field"),
            ("a.example", "cut", "is no JSON"),
        ] {
            let refused = pair(place(), host, document.as_bytes()).unwrap_err();
            assert!(refused.reason.contains(reason), "{refused:?}");
        }
    }
}
