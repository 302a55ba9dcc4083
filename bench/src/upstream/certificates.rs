//! Endpoint that gives out chain and key of a host, as `get_certificate http` of Caddy asks
//! for them.

use std::fs;
use std::path::Path;

use crate::fixtures::Folder;

/// Returns the answer to a request.
pub(super) fn answer(fixture: &Path, head: &[u8]) -> Vec<u8> {
    let Some(pem) = asked(head).and_then(|name| bundle(Folder(fixture), name)) else {
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec();
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", pem.len());
    [head.into_bytes(), pem].concat()
}

/// Returns the `server_name` of a request. Nothing else than a name may reach a path.
fn asked(head: &[u8]) -> Option<&str> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let target = std::str::from_utf8(line).ok()?.split(' ').nth(1)?;
    let (_, query) = target.split_once('?')?;
    let mut fields = query.split('&');
    let name = fields.find_map(|field| field.strip_prefix("server_name="))?;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    name.bytes().all(is_part).then_some(name)
}

fn bundle(fixture: Folder<'_>, name: &str) -> Option<Vec<u8>> {
    let mut pem = fs::read(fixture.chain(name)).ok()?;
    pem.extend(fs::read(fixture.key(name)).ok()?);
    Some(pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_and_key_are_given_out_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Folder(folder.path());
        fs::create_dir_all(fixture.hosts()).unwrap();
        fs::write(fixture.chain("a.test"), "chain\n").unwrap();
        fs::write(fixture.key("a.test"), "key\n").unwrap();
        let text = |query: &str| {
            let head = format!("GET /?{query} HTTP/1.1\r\nHost: x\r\n\r\n");
            String::from_utf8(answer(folder.path(), head.as_bytes())).unwrap()
        };
        let found = text("cipher_suites=1301&server_name=a.test&signature_schemes=403");
        assert!(found.starts_with("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n"));
        assert!(found.ends_with("\r\n\r\nchain\nkey\n"));
        for query in [
            "server_name=b.test",
            "server_name=../hosts/a.test",
            "name=a",
        ] {
            assert!(text(query).starts_with("HTTP/1.1 404 "), "{query}");
        }
    }
}
