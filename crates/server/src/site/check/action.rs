//! Checks how requests are answered: the answer of the top level, or of one of `paths`.

use std::path::Path;
use std::sync::Arc;

use http::StatusCode;

use super::servers::Kind;
use super::{fastcgi, upstream};
use crate::site::document::{RawSite, TextOr};
use crate::site::error::{Below, Checked, Wrong, at_most, checked};
use crate::site::redirect::Redirect;
use crate::site::root::Root;
use crate::site::rule::Action;
use crate::site::template::{HOST, TENANT, Template};

/// Checks how requests are answered.
pub(super) fn action<I>(raw: &RawSite<I>, base: Option<&Path>) -> Checked<Action> {
    let text = raw.text.as_deref();
    if text.is_some() && (raw.status.is_none() || raw.redirect.is_some()) {
        return Err(Wrong::new("only a `status` has a text")).below("text");
    }
    if raw.fastcgi.is_some() && raw.root.is_none() {
        return Err(Wrong::new("write the `root` of its scripts, too")).below("fastcgi");
    }
    let is_cgi = raw.cgi == Some(true);
    if is_cgi && (raw.root.is_none() || raw.fastcgi.is_some()) {
        let text = "write the `root` of its programs, and no `fastcgi`";
        return Err(Wrong::new(text)).below("cgi");
    }
    match (&raw.root, &raw.upstream, &raw.redirect, raw.status) {
        (Some(root), None, None, None) => {
            let root = root_of(root, base).below("root")?;
            if is_cgi {
                return programs_of(root).below("root");
            }
            let scripts = |raw| fastcgi::scripts(raw, base.is_none()).map(Arc::new);
            let scripts = checked("fastcgi", raw.fastcgi.as_ref(), scripts)?;
            Ok(match scripts {
                Some(scripts) => Action::Scripts(root, scripts),
                None => Action::Files(root),
            })
        }
        (None, Some(upstream), None, None) => {
            let is_bound = base.is_none();
            let checked = match upstream {
                TextOr::Text(url) => upstream::of_url(url, Kind::HTTP, is_bound),
                TextOr::Table(keys) => upstream::upstream(keys, is_bound),
            };
            Ok(Action::Upstream(Arc::new(checked.below("upstream")?)))
        }
        (None, None, Some(target), status) => Redirect::parse(target, status).map(Action::Redirect),
        (None, None, None, Some(status)) => {
            let code = error_status(status).below("status")?;
            let text = checked("text", text, text_of)?;
            Ok(Action::Status { code, text })
        }
        _ => Err(Wrong::new(CHOICE)),
    }
}

/// Checks the folder of programs.
fn programs_of(root: Root) -> Checked<Action> {
    match root.template.text.contains('{') {
        true => Err(Wrong::new(
            "programs run as the server's user and are the operator's: write a folder without \
             placeholders; tenants' own programs run by `fastcgi`",
        )),
        false => Ok(Action::Programs(root)),
    }
}

/// Checks a folder. One with a `base` is the operator's own, from `[site]`.
pub(super) fn root_of(root: &str, base: Option<&Path>) -> Checked<Root> {
    if root.is_empty() || root.contains('\0') {
        return Err(Wrong::new("a path must not be empty nor hold a NUL"));
    }
    let path = base.map_or_else(|| Path::new(root).to_owned(), |base| base.join(root));
    if !path.is_absolute() {
        return Err(Wrong::new(format!(
            "{root:?} is relative; write an absolute path, such as \"/srv/www/{{host}}\""
        )));
    }
    let path = path
        .to_str()
        .ok_or_else(|| Wrong::new(format!("{} is not UTF-8", path.display())))?;
    let template = Template::parse(path, &[HOST, TENANT]).map_err(Wrong::new)?;
    Ok(match base {
        Some(_) => Root::of_operator(template),
        None => Root::of_record(template),
    })
}

/// Checks a status of an error.
pub(super) fn error_status(status: i64) -> Checked<StatusCode> {
    u16::try_from(status)
        .ok()
        .filter(|code| (400..600).contains(code))
        .and_then(|code| StatusCode::from_u16(code).ok())
        .ok_or_else(|| {
            Wrong::new(format!(
                "{status} is not a status from 400 to 599, such as 404"
            ))
        })
}

fn text_of(text: &str) -> Checked<Arc<str>> {
    at_most(MAX_TEXT, text.len(), "bytes")?;
    Ok(text.into())
}

/// Bytes of a status's text.
const MAX_TEXT: usize = 16 << 10;
const CHOICE: &str = "a site has exactly one of `root`, `upstream`, `redirect` (with its `status`) and `status`, \
     and so has each of its `paths`";
