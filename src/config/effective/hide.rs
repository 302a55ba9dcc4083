//! Hides passwords in values that are shown.

use serde_json::Value;

/// Hides what is secret in a value: passwords in URLs, and in `[site]` credentials that are
/// sent to upstreams, and hashes of passwords. `path` is that of its key.
pub(super) fn hide(path: &[String], value: &mut Value) {
    match value {
        Value::String(text) if is_credential(path) => STARS.clone_into(text),
        Value::String(text) => *text = without_passwords(text),
        Value::Array(items) => items.iter_mut().for_each(|item| hide(path, item)),
        Value::Object(table) => {
            for (key, value) in table {
                hide(&[path, std::slice::from_ref(key)].concat(), value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Tells whether a path is that of a field with credentials in `request` of a site, or of
/// the hash of a password.
fn is_credential(path: &[String]) -> bool {
    match path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["site", .., "request", "set" | "add", field] => {
            let field = field.to_ascii_lowercase();
            CREDENTIALS.iter().any(|word| field.contains(word))
        }
        ["site", .., "auth", "users", _] => true,
        _ => false,
    }
}

/// Replaces the passwords in a text: of a URL, or of all URLs in a command.
pub(super) fn without_passwords(text: &str) -> String {
    if !text.starts_with("command:") {
        return url_without_password(text);
    }
    let words = text.split_inclusive(char::is_whitespace);
    words.map(url_without_password).collect()
}

/// Replaces the password in front of the last `@` of a URL, and those in its parameters.
fn url_without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let login = rest.rsplit_once('@').filter(|_| !is_server(&rest[..end]));
    let (user, rest) = match login.and_then(|(login, rest)| Some((login.split_once(':')?.0, rest)))
    {
        Some((user, rest)) => (format!("{user}:{STARS}@"), rest),
        None => (String::new(), rest),
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mark = if place.len() < rest.len() { "?" } else { "" };
    let query = without_parameters(query);
    format!("{scheme}://{user}{place}{mark}{query}")
}

/// Tells whether an authority is a server without a login: an `@` after it is part of a path.
/// A password may hold a slash by mistake, which would end the authority too early.
fn is_server(authority: &str) -> bool {
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    !authority.contains('@') && (is_port || authority.ends_with(']'))
}

fn without_parameters(query: &str) -> String {
    let one = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}={STARS}"),
        _ => parameter.to_owned(),
    };
    query.split('&').map(one).collect::<Vec<_>>().join("&")
}

/// Tells whether a parameter holds a secret, such as `sentinel_password`.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CREDENTIALS.iter().any(|word| name.contains(word))
}

const STARS: &str = "***";
/// Words in names of parameters and fields that hold credentials.
const CREDENTIALS: [&str; 7] = [
    "auth", "cookie", "token", "secret", "pass", "api_key", "api-key",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_urls_are_hidden() {
        for (text, shown) in [
            ("sqlite:hosts.db", "sqlite:hosts.db"),
            ("postgres://u@h/d?pool=2", "postgres://u@h/d?pool=2"),
            ("postgres://u:hush@h:1/d", "postgres://u:***@h:1/d"),
            ("redis://:hush@h", "redis://:***@h"),
            ("redis://u:hu#sh@h,i/m", "redis://u:***@h,i/m"),
            ("https://u:hu@sh@h/a", "https://u:***@h/a"),
            ("https://u:hu/sh@h/a", "https://u:***@h/a"),
            ("https://u:hu?sh@h/a", "https://u:***@h/a"),
            ("postgres://u:hu sh@h/d", "postgres://u:***@h/d"),
            ("https://h:1/@b?c=d@e", "https://h:1/@b?c=d@e"),
            (
                "postgres://h/d?pool=2&password=hush",
                "postgres://h/d?pool=2&password=***",
            ),
            (
                "redis+sentinel://h/m?sentinel_user=u&sentinel_password=hush",
                "redis+sentinel://h/m?sentinel_user=u&sentinel_password=***",
            ),
            (
                "redis://h?chain={host}.crt&key={host}.key",
                "redis://h?chain={host}.crt&key={host}.key",
            ),
            ("https://h/a?Token=hush&b=1", "https://h/a?Token=***&b=1"),
            (
                "command:get https://u:hush@h/k https://v:hush@i | head -1",
                "command:get https://u:***@h/k https://v:***@i | head -1",
            ),
            ("http://[::1]:80/a:b@c", "http://[::1]:80/a:b@c"),
            ("http://[::1]/a:b@c", "http://[::1]/a:b@c"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }

    #[test]
    fn credentials_for_upstreams_are_hidden() {
        for (path, is_hidden) in [
            ("site request set Authorization", true),
            ("site paths 0 request add X-Api-Key", true),
            ("site request set X-Forwarded-Prefix", false),
            ("site response set WWW-Authenticate", false),
            ("site auth users ann", true),
            ("site paths 0 auth users ann", true),
            ("site auth realm", false),
            ("acme key", false),
        ] {
            let path: Vec<_> = path.split(' ').map(str::to_owned).collect();
            let mut value = Value::from("text");
            hide(&path, &mut value);
            assert_eq!(value == "***", is_hidden, "{path:?}");
        }
    }
}
