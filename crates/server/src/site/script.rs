//! Scripts of a site, which a FastCGI server runs.

use std::sync::Arc;

use super::upstream::{Scheme, Upstream};

/// Files of a site that are no content: a FastCGI server runs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scripts {
    /// The FastCGI servers; without servers, the scripts are 403.
    pub(crate) upstream: Arc<Upstream>,
    /// Ends of the scripts' names, such as `.php`, in lower case.
    pub(crate) suffixes: Box<[Box<str>]>,
}

impl Scripts {
    /// Returns an upstream without servers.
    pub(crate) fn never_run() -> Upstream {
        Upstream {
            servers: Box::default(),
            scheme: Scheme::FastCgi,
            is_bound: true,
            options: None,
        }
    }

    /// Returns whether a server runs the scripts.
    pub(crate) fn are_run(&self) -> bool {
        !self.upstream.servers.is_empty()
    }

    /// Returns whether a file of this name, or path, is a script. Letters' case does not
    /// count: no client gets the content of `a.PHP`.
    pub(crate) fn contain(&self, name: &str) -> bool {
        self.suffixes.iter().any(|suffix| {
            let start = name.len().checked_sub(suffix.len());
            let end = start.and_then(|start| name.get(start..));
            end.is_some_and(|end| end.eq_ignore_ascii_case(suffix))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_known_by_the_end_of_its_name() {
        let scripts = Scripts {
            upstream: Arc::new(Scripts::never_run()),
            suffixes: [".php".into(), ".phar".into()].into(),
        };
        for (name, expected) in [
            ("a.php", true),
            ("a.PHP", true),
            ("b/a.phar", true),
            (".php", true),
            ("a.php5", false),
            ("a.php/", false),
            ("php", false),
            ("\u{e9}php", false),
            ("", false),
        ] {
            assert_eq!(scripts.contain(name), expected, "{name}");
        }
    }
}
