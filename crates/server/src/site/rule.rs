//! Rule of a site: a path, and how requests for it, or below it, are answered.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode};

use super::auth::Auth;
use super::compress::{Coding, Compress};
use super::fields::FieldOps;
use super::redirect::Redirect;
use super::root::Root;
use super::script::Scripts;
use super::upstream::{Upstream, UpstreamOptions};
use crate::limits::network::Networks;

/// How requests below a path are answered.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// Decoded path without a slash at its end; empty for `/`, which matches
    /// every path. With `is_exact`, the path itself, which may end with a slash.
    pub(crate) prefix: Box<str>,
    /// Whether the rule is for that path alone, and not for those below it.
    pub(crate) is_exact: bool,
    /// Methods of the rule's requests; none for all. GET stands for HEAD and CONNECT, too.
    pub(crate) methods: Option<Box<[Method]>>,
    /// How requests are answered.
    pub(crate) action: Action,
    /// Options; none if all have their defaults. Rules share the options of
    /// the document's top level.
    pub(crate) options: Option<Arc<RuleOptions>>,
}

impl Rule {
    /// Returns whether the rule is for a decoded path: its prefix, or one below it.
    pub(crate) fn matches(&self, path: &str) -> bool {
        let is_below =
            |rest: &str| !self.is_exact && (rest.starts_with('/') || self.prefix.is_empty());
        path.strip_prefix(&*self.prefix)
            .is_some_and(|rest| rest.is_empty() || is_below(rest))
    }

    /// Returns whether the rule is for requests with a method.
    pub(crate) fn takes(&self, method: &Method) -> bool {
        let Some(methods) = &self.methods else {
            return true;
        };
        // A WebSocket over HTTP/2 begins with CONNECT (RFC 8441), over HTTP/1.1 with GET.
        let is_like_get = *method == Method::HEAD || *method == Method::CONNECT;
        is_like_get && methods.contains(&Method::GET) || methods.contains(method)
    }

    /// Returns the bytes of the largest request body.
    pub(crate) fn body_limit(&self) -> u64 {
        RuleOptions::body_limit(self.options.as_deref())
    }
}

/// How requests are answered.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// From files below a folder.
    Files(Root),
    /// From files below a folder, some of which are scripts that a FastCGI server runs.
    Scripts(Root, Arc<Scripts>),
    /// By CGI programs below a folder, which the server runs.
    Programs(Root),
    /// By other servers.
    Upstream(Arc<Upstream>),
    /// Elsewhere.
    Redirect(Redirect),
    /// With a status.
    Status {
        /// The status, 400 to 599.
        code: StatusCode,
        /// Plain text of the answer; by default the status and its reason.
        text: Option<Arc<str>>,
    },
}

impl Action {
    /// Returns the folder that files are served from, which `[sites] allow` judges.
    pub(crate) fn root(&self) -> Option<&Root> {
        match self {
            Self::Files(root) | Self::Scripts(root, _) => Some(root),
            Self::Programs(_) | Self::Upstream(_) | Self::Redirect(_) | Self::Status { .. } => None,
        }
    }

    /// Returns the folder of programs, which `[sites] allow` judges by other entries.
    pub(crate) fn programs(&self) -> Option<&Root> {
        match self {
            Self::Programs(root) => Some(root),
            Self::Files(_)
            | Self::Scripts(..)
            | Self::Upstream(_)
            | Self::Redirect(_)
            | Self::Status { .. } => None,
        }
    }

    /// Returns the servers that requests are passed on to, which `[sites] allow` judges.
    pub(crate) fn upstream(&self) -> Option<&Arc<Upstream>> {
        match self {
            Self::Upstream(upstream) => Some(upstream),
            Self::Scripts(_, scripts) => Some(&scripts.upstream),
            Self::Files(_) | Self::Programs(_) | Self::Redirect(_) | Self::Status { .. } => None,
        }
    }

    /// Returns the settings by which requests' fields are passed on; none if they are not.
    pub(crate) fn passes_on(&self) -> Option<&UpstreamOptions> {
        let of_programs = self.programs().map(|_| UpstreamOptions::of_programs());
        of_programs.or_else(|| self.upstream().map(|upstream| upstream.options()))
    }
}

/// Options of a rule.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleOptions {
    /// Whether the rule's prefix is taken off the path that files and upstream
    /// get. No path takes this key about the path from the top level, nor the two others.
    pub(crate) strip_prefix: bool,
    /// Decoded prefix of the path that files and upstream get, after
    /// `strip_prefix`. It begins with a slash and ends without. Key about the path.
    pub(crate) add_prefix: Option<Box<str>>,
    /// Changes to the request's fields, towards an upstream.
    pub(crate) request_fields: FieldOps,
    /// Changes to the response's fields.
    pub(crate) response_fields: FieldOps,
    /// `Strict-Transport-Security` of each response.
    pub(crate) hsts: Option<HeaderValue>,
    /// `Cache-Control` of successful responses by media type: the first that
    /// matches.
    pub(crate) cache: Box<[CacheRule]>,
    /// Paths that are tried in this order for a request of files; empty for
    /// the request's own. Key about the path.
    pub(crate) try_files: Box<[Candidate]>,
    /// Names of files that stand for a path with a slash at its end; empty for the usual
    /// ones.
    pub(crate) index: Box<[Box<str>]>,
    /// Codings of files that lie precompressed beside others, in the order of preference.
    pub(crate) precompressed: Box<[Coding]>,
    /// Compression of answers on the way; none without it.
    pub(crate) compress: Option<Box<Compress>>,
    /// Folder of the error pages, such as `404.html`.
    pub(crate) errors: Option<Root>,
    /// Whether the pages stand for errors of upstreams, too.
    pub(crate) upstream_errors: bool,
    /// Bytes of the largest request body; [`RuleOptions::body_limit`] has the default.
    pub(crate) body_limit: Option<u64>,
    /// Requests per second of one client prefix.
    pub(crate) rate_client: Option<NonZeroU32>,
    /// Requests of one client prefix that may come at once; none for those of a second.
    pub(crate) rate_burst: Option<NonZeroU32>,
    /// Requests per second of the host.
    pub(crate) rate_host: Option<NonZeroU32>,
    /// Number of the place where the rates were written: rules with the same
    /// number share their counts. 0 is the document's top level.
    pub(crate) rate_scope: u8,
    /// Requests of one client prefix in flight at once; none for any number.
    pub(crate) in_flight: Option<NonZeroU32>,
    /// Number of the place where `in_flight` was written, as `rate_scope`.
    pub(crate) in_flight_scope: u8,
    /// Whether only clients that have shown a trusted certificate are answered.
    pub(crate) client_certificate: bool,
    /// Networks of the clients that alone are answered; none for all.
    pub(crate) allow: Option<Networks>,
    /// Networks of clients that are refused; it prevails over `allow`.
    pub(crate) deny: Networks,
    /// Users, one of whose passwords each request must carry; none for all requests.
    pub(crate) auth: Option<Arc<Auth>>,
}

impl RuleOptions {
    /// Returns the bytes of the largest request body, by the options if there are any.
    pub(crate) fn body_limit(options: Option<&Self>) -> u64 {
        let own = options.and_then(|options| options.body_limit);
        own.unwrap_or(DEFAULT_BODY_LIMIT)
    }
}

/// `Cache-Control` for media types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheRule {
    /// Media types.
    pub(crate) media: MediaRange,
    /// Value of the field.
    pub(crate) value: HeaderValue,
}

impl CacheRule {
    /// Returns `Cache-Control` for a `Content-Type`. Without one, only `*/*`
    /// matches.
    pub(crate) fn of<'a>(rules: &'a [Self], kind: Option<&HeaderValue>) -> Option<&'a HeaderValue> {
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let rule = rules.iter().find(|rule| rule.media.contains(kind))?;
        Some(&rule.value)
    }
}

/// Media types, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MediaRange {
    /// `*/*`.
    Any,
    /// `text/*`: the type with its slash, `text/`.
    Type(Box<str>),
    /// `text/css`.
    Exact(Box<str>),
}

impl MediaRange {
    /// Returns whether a `Content-Type` has one of the media types.
    pub(crate) fn contains(&self, content_type: &str) -> bool {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        match self {
            Self::Any => true,
            Self::Type(prefix) => media
                .get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix)),
            Self::Exact(exact) => media.eq_ignore_ascii_case(exact),
        }
    }
}

/// Path that is tried for a request of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// The request's path with a text before and behind it: `{path}`,
    /// `{path}.html`.
    Path {
        /// Text before the path: empty, or a prefix that begins with a slash
        /// and ends without.
        before: Box<str>,
        /// Text behind the path.
        after: Box<str>,
    },
    /// A decoded path, which begins with a slash: `/index.html`.
    Fixed(Box<str>),
    /// A status, if no path before has a file: `=404`.
    Status(StatusCode),
}

impl Candidate {
    /// Returns the request's own path, which a rule tries that names none.
    pub(crate) fn own() -> Self {
        Self::Path {
            before: Box::default(),
            after: Box::default(),
        }
    }

    /// Returns whether this is the request's own path.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::Path { before, after } if before.is_empty() && after.is_empty())
    }

    /// Returns the path that is tried for a request of the decoded path `own`.
    ///
    /// # Errors
    /// The status, if there is no path.
    pub(crate) fn path<'a>(&'a self, own: &'a str) -> Result<Cow<'a, str>, StatusCode> {
        match self {
            _ if self.is_own() => Ok(own.into()),
            Self::Path { before, after } => Ok(format!("{before}{own}{after}").into()),
            Self::Fixed(path) => Ok((&**path).into()),
            Self::Status(status) => Err(*status),
        }
    }
}

/// Bytes of the largest request body, unless a site says otherwise: 100 MiB.
const DEFAULT_BODY_LIMIT: u64 = 100 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(prefix: &str, is_exact: bool, methods: Option<&[Method]>) -> Rule {
        Rule {
            prefix: prefix.into(),
            is_exact,
            methods: methods.map(Into::into),
            action: Action::Status {
                code: StatusCode::NOT_FOUND,
                text: None,
            },
            options: None,
        }
    }

    #[test]
    fn a_prefix_ends_at_a_segment() {
        for (prefix, path, expected) in [
            ("", "/", true),
            ("", "/a", true),
            ("", "*", true),
            ("/api", "/api", true),
            ("/api", "/api/", true),
            ("/api", "/api/v1", true),
            ("/api", "/apis", false),
            ("/api", "/api%2Fv1", false),
            ("/api", "/", false),
            ("/api", "/Api", false),
            ("/a/b", "/a/b/c", true),
            ("/a/b", "/a", false),
        ] {
            let rule = rule(prefix, false, None);
            assert_eq!(rule.matches(path), expected, "{prefix} {path}");
        }
    }

    #[test]
    fn an_exact_rule_is_for_one_path() {
        for (path, asked, expected) in [
            ("/", "/", true),
            ("/", "/a", false),
            ("/", "*", false),
            ("/api", "/api", true),
            ("/api", "/api/", false),
            ("/api", "/api/v1", false),
            ("/api", "/apis", false),
            ("/api/", "/api/", true),
            ("/api/", "/api", false),
        ] {
            let rule = rule(path, true, None);
            assert_eq!(rule.matches(asked), expected, "{path} {asked}");
        }
    }

    #[test]
    fn get_stands_for_head_and_connect() {
        let get = rule("", false, Some(&[Method::GET, Method::POST]));
        for method in [Method::GET, Method::HEAD, Method::CONNECT, Method::POST] {
            assert!(get.takes(&method), "{method}");
        }
        assert!(!get.takes(&Method::PUT) && !get.takes(&Method::OPTIONS));
        let head = rule("", false, Some(&[Method::HEAD]));
        assert!(head.takes(&Method::HEAD) && !head.takes(&Method::GET));
        assert!(rule("", false, None).takes(&Method::DELETE));
    }

    #[test]
    fn a_candidate_takes_the_path_of_the_request() {
        let around = |before: &str, after: &str| Candidate::Path {
            before: before.into(),
            after: after.into(),
        };
        for (candidate, expected) in [
            (around("", ""), "/a b"),
            (around("", ".html"), "/a b.html"),
            (around("/v1", "/index.html"), "/v1/a b/index.html"),
            (Candidate::Fixed("/index.html".into()), "/index.html"),
        ] {
            let tried = candidate.path("/a b").unwrap();
            assert_eq!(tried, expected, "{candidate:?}");
        }
        let status = Candidate::Status(StatusCode::GONE);
        assert_eq!(status.path("/a b"), Err(StatusCode::GONE));
    }

    #[test]
    fn a_media_range_ignores_case_and_parameters() {
        let text = MediaRange::Type("text/".into());
        let css = MediaRange::Exact("text/css".into());
        for (content_type, in_text, in_css) in [
            ("text/css", true, true),
            ("Text/CSS; charset=utf-8", true, true),
            ("text/html ;a=b", true, false),
            ("image/png", false, false),
            ("", false, false),
        ] {
            assert_eq!(text.contains(content_type), in_text, "{content_type}");
            assert_eq!(css.contains(content_type), in_css, "{content_type}");
            assert!(MediaRange::Any.contains(content_type));
        }
    }
}
