//! Host that a request names.

use http::header::HOST;
use http::uri::Scheme;
use http::{Request, Version};
use memchr::memchr2;

/// Returns the host that a request names, without the port. None if it names
/// none or several, or if the target has another scheme.
///
/// Over HTTP/1.1, a target in absolute form overrides Host, which must be
/// present all the same (RFC 9112, sections 3.2 and 3.2.2). Over HTTP/2 the two
/// must be equal (RFC 9113, section 8.3.1).
pub(crate) fn of<B>(request: &Request<B>) -> Option<&str> {
    let (uri, version) = (request.uri(), request.version());
    let web = |scheme: &Scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS;
    if !uri.scheme().is_none_or(web) {
        return None;
    }
    let target = match uri.authority() {
        // User information before the host disguises it, as in
        // `good.example@evil.example`.
        Some(authority) if authority.as_str().contains('@') => return None,
        Some(authority) => Some(without_port(authority.as_str())?),
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
    let host = match (target, field) {
        (Some(_), None) if version == Version::HTTP_11 => None,
        (Some(target), Some(field)) if version >= Version::HTTP_2 => {
            target.eq_ignore_ascii_case(field).then_some(target)
        }
        (target, field) => target.or(field),
    };
    host.filter(|host| !host.is_empty())
}

fn without_port(host: &str) -> Option<&str> {
    // Most hosts have neither.
    if memchr2(b':', b']', host.as_bytes()).is_none() {
        return Some(host);
    }
    // An IPv6 address stands in brackets and has colons of its own.
    let address_end = host.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match host[address_end..].find(':') {
        Some(colon) => (
            &host[..address_end + colon],
            &host[address_end + colon + 1..],
        ),
        None => (host, ""),
    };
    // `parse` would accept a leading `+`.
    let digits = port.bytes().all(|b| b.is_ascii_digit());
    (digits && (port.is_empty() || port.parse::<u16>().is_ok())).then_some(host)
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
            ("https://a.example:8443/", &["A.Example"], Some("a.example")),
            ("https://a.example/", &["b.example"], Some("a.example")),
            ("https://a.example:99999/", &["a.example"], None),
            ("https://a.example/", &["a.example:x"], None),
            ("https://a.example/", &[], None),
            ("ftp://a.example/", &["a.example"], None),
            ("/", &["a.example:65535"], Some("a.example")),
            ("/", &["a.example:65536"], None),
            ("/", &["a.example:+443"], None),
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

    #[test]
    fn over_http2_target_and_field_agree() {
        for (host, want) in [
            (None, Some("a.example")),
            (Some("A.example:443"), Some("a.example")),
            (Some("b.example"), None),
        ] {
            let request = Request::get("https://a.example/").version(Version::HTTP_2);
            let request = host
                .into_iter()
                .fold(request, |it, host| it.header(HOST, host));
            let request = request.body(()).unwrap();
            assert_eq!(of(&request), want, "{host:?}");
        }
    }
}
