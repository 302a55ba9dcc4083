//! Header fields that neither clients nor sites set: the server alone does, or none.

/// Declares the fields by kind, so that the tests can list them.
macro_rules! reserved {
    ($($(#[$doc:meta])* $kind:ident: $($name:literal)+;)+) => {
        /// Kind of a field that is reserved to the server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Reserved {
            $($(#[$doc])* $kind,)+
        }

        impl Reserved {
            /// Returns the kind of a name in lower case; none if the field is like any
            /// other.
            pub(crate) fn of(name: &str) -> Option<Self> {
                match name {
                    $($($name)|+ => Some(Self::$kind),)+
                    _ if name.starts_with(FORWARDED) => Some(Self::Claim),
                    _ => None,
                }
            }

            #[cfg(test)]
            const ALL: &[(Self, &[&str])] = &[$((Self::$kind, &[$($name),+]),)+];
        }
    };
}

reserved! {
    /// Of one connection (RFC 9110, section 7.6.1), or the framing, which hyper does
    /// anew. `Proxy` is no field of HTTP: CGI and PHP would read it as the variable
    /// `HTTP_PROXY` (httpoxy, CVE-2016-5385).
    HopByHop: "connection" "http2-settings" "keep-alive" "proxy" "proxy-authenticate"
        "proxy-authorization" "proxy-connection" "te" "transfer-encoding" "upgrade";
    /// Where a message ends, and what its sender waits for.
    Framing: "content-length" "expect" "trailer";
    /// Where a request goes, and where it has been (RFC 8586).
    Route: "cdn-loop" "host";
    /// Fields that name the client, or what it asked a proxy for. The server sets or
    /// removes each.
    Forwarding: "forwarded" "x-forwarded-for" "x-forwarded-host" "x-forwarded-proto" "x-real-ip";
    /// What frameworks believe of a client's address, protocol, host and path, with all
    /// other `X-Forwarded-*`. Only peers in `[listen] trusted` may claim it. A rule may
    /// set these.
    Claim: "cf-connecting-ip" "cf-connecting-ipv6" "client-ip" "fastly-client-ip"
        "fly-client-ip" "front-end-https" "proxy-client-ip" "remote-addr" "true-client-ip"
        "wl-proxy-client-ip" "x-appengine-user-ip" "x-azure-clientip" "x-azure-socketip"
        "x-client-ip" "x-cluster-client-ip" "x-envoy-external-address" "x-forwarded" "x-host"
        "x-original-forwarded-for" "x-original-host" "x-original-url" "x-originating-ip"
        "x-remote-addr" "x-remote-ip" "x-rewrite-url" "x-scheme" "x-url-scheme";
    /// Which request it is. A rule may set this one.
    RequestId: "x-request-id";
}

/// Returns whether two names are one to a recipient that reads all punctuation alike, as
/// CGI of some servers does. WSGI and PHP do so with `_` and `-`.
pub(crate) fn folds_to(one: &str, other: &str) -> bool {
    one.bytes().map(fold).eq(other.bytes().map(fold))
}

/// Returns the kind of the reserved name that a recipient may read this name as.
pub(crate) fn folded(name: &str) -> Option<Reserved> {
    let folded: String = name.bytes().map(|byte| char::from(fold(byte))).collect();
    Reserved::of(&folded)
}

/// Returns whether a name has punctuation other than `-` and `_`. No field in use has,
/// and recipients may read the name as another one.
pub(crate) fn is_odd(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !name.bytes().all(is_usual)
}

fn fold(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() {
        byte
    } else {
        b'-'
    }
}

/// Beginning of the names in which proxies tell what they were asked.
const FORWARDED: &str = "x-forwarded-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_names_every_reserved_field() {
        let documentation = include_str!("../../../../docs/sites.md");
        let (_, chapter) = documentation
            .split_once("\n### Reserved fields\n")
            .expect("a chapter");
        let chapter = chapter.split("\n#").next().unwrap();
        let chapter = chapter.to_ascii_lowercase();
        let mut documented: Vec<&str> = chapter
            .lines()
            .filter(|line| line.starts_with("| `"))
            .flat_map(|line| {
                line.split('|')
                    .nth(1)
                    .unwrap()
                    .split('`')
                    .skip(1)
                    .step_by(2)
            })
            .collect();
        let mut reserved: Vec<&str> = Reserved::ALL
            .iter()
            .flat_map(|(kind, names)| {
                assert!(names.iter().all(|name| Reserved::of(name) == Some(*kind)));
                names.iter().copied()
            })
            .collect();
        documented.sort_unstable();
        reserved.sort_unstable();
        assert_eq!(documented, reserved);
    }
}
