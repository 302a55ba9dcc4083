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
    /// Fields that name the client.
    Forwarding: "forwarded" "x-forwarded-for" "x-forwarded-host" "x-forwarded-proto" "x-real-ip";
    /// Which request it is. A rule may set this one.
    RequestId: "x-request-id";
}

/// Returns whether two names are one where `_` and `-` are, as for WSGI, CGI and PHP.
pub(crate) fn folds_to(one: &str, other: &str) -> bool {
    let fold = |byte: u8| if byte == b'_' { b'-' } else { byte };
    one.bytes().map(fold).eq(other.bytes().map(fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_names_every_reserved_field() {
        let documentation = include_str!("../../../docs/sites.md");
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
