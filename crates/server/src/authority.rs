//! The host that a request names.

use http::Request;
use http::header::HOST;

/// The host of the target and of the Host field, without the port. None if
/// there is none, if there are several or if they differ (RFC 9112, section
/// 3.2; RFC 9113, section 8.3.1).
pub(crate) fn of<B>(request: &Request<B>) -> Option<&str> {
    let target = match request.uri().authority() {
        // Credentials in a URL are a way to disguise a host.
        Some(authority) if authority.as_str().contains('@') => return None,
        Some(authority) => Some(authority.host()),
        None => None,
    };
    let mut fields = request.headers().get_all(HOST).iter();
    let field = match fields.next() {
        Some(field) => Some(without_port(field.to_str().ok()?)?),
        None => None,
    };
    if fields.next().is_some() {
        return None;
    }
    match (target, field) {
        (Some(target), Some(field)) => target.eq_ignore_ascii_case(field).then_some(target),
        (target, field) => target.or(field).filter(|host| !host.is_empty()),
    }
}

fn without_port(host: &str) -> Option<&str> {
    // An IPv6 address stands in brackets and has colons of its own.
    let address_end = host.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match host[address_end..].find(':') {
        Some(colon) => (
            &host[..address_end + colon],
            &host[address_end + colon + 1..],
        ),
        None => (host, ""),
    };
    port.bytes().all(|b| b.is_ascii_digit()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_or_none() {
        for (uri, hosts, want) in [
            ("/", &["a.example"][..], Some("a.example")),
            ("/", &["A.example:8443"], Some("A.example")),
            ("/", &["a.example:"], Some("a.example")),
            ("/", &["[::1]:443"], Some("[::1]")),
            ("https://a.example/", &[], Some("a.example")),
            ("https://a.example:8443/", &["A.Example"], Some("a.example")),
            ("https://a.example/", &["b.example"], None),
            ("https://u@a.example/", &["a.example"], None),
            ("/", &["a.example", "a.example"], None),
            ("/", &["a.example", "b.example"], None),
            ("/", &["a.example:x"], None),
            ("/", &["a.example:443:443"], None),
            ("/", &[""], None),
            ("/", &[":443"], None),
            ("/", &[], None),
        ] {
            let mut request = Request::builder().uri(uri);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            let request = request.body(()).unwrap();
            assert_eq!(of(&request), want, "{uri} {hosts:?}");
        }
    }
}
