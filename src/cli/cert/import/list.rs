//! Reads a list of pairs, CSV: chain, key, and hosts.

use std::io;
use std::path::Path;

use sekisho_certs::HostPattern;

use super::lines::{Lines, UNREADABLE};
use super::source::{Half, Key, Names, Pair, Pairs, Refusal};

/// Lists the pairs of a list. Its paths begin in the list's folder.
pub(super) fn pairs(list: &Path) -> io::Result<Pairs> {
    let base = list.parent().unwrap_or(Path::new("")).to_owned();
    let lines = Lines::open(list)?;
    Ok(Box::new(lines.filter_map(move |line| match line {
        Ok((place, line)) => pair(&place, &line, &base).transpose(),
        Err(refusal) => Some(Err(refusal)),
    })))
}

/// Reads a line; none for an empty one, a comment and the names of the columns.
fn pair(place: &Path, line: &str, base: &Path) -> Result<Option<Pair>, Refusal> {
    if line.trim().is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let refuse = |reason: &str| Refusal::new(place, UNREADABLE, reason);
    let fields = fields(line).map_err(refuse)?;
    let (chain, key, hosts) = match &fields[..] {
        [chain, key, ..] if is_title(chain, "chain") && is_title(key, "key") => return Ok(None),
        [chain, key, hosts @ ..] if !chain.is_empty() => (chain, key, hosts),
        _ => return Err(refuse("a line has a chain, a key and hosts: chain,key[,host…]")),
    };
    let half = |path: &str| Half::File(base.join(path));
    let pair = Pair {
        names: names(place, hosts)?,
        chain: half(chain),
        key: match key.is_empty() {
            true => Key::InChain,
            false => Key::Apart(half(key)),
        },
        issuers: None,
    };
    Ok(Some(pair))
}

fn is_title(field: &str, title: &str) -> bool {
    field.eq_ignore_ascii_case(title)
}

fn names(place: &Path, hosts: &[String]) -> Result<Names, Refusal> {
    let hosts = hosts.iter().filter(|host| !host.is_empty());
    let hosts: Result<Vec<_>, _> = hosts.map(|host| HostPattern::parse(host)).collect();
    match hosts {
        Ok(hosts) if hosts.is_empty() => Ok(Names::OfLeaf(hosts)),
        Ok(hosts) => Ok(Names::Exactly(hosts)),
        Err(error) => Err(Refusal::new(place, "a name is no host", error.to_string())),
    }
}

/// Splits a line into its fields (RFC 4180). Spaces around a field do not count.
fn fields(line: &str) -> Result<Vec<String>, &'static str> {
    let mut fields = Vec::new();
    let mut rest = line.trim_start();
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(text) => quoted(text)?,
            None => {
                let (field, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                (field.trim_end().to_owned(), after)
            }
        };
        fields.push(field);
        match after.trim_start().strip_prefix(',') {
            Some(next) => rest = next.trim_start(),
            None if after.trim().is_empty() => return Ok(fields),
            None => return Err("a quoted field ends before its comma"),
        }
    }
}

/// Reads a quoted field, in which two quotes stand for one. Returns what follows it.
fn quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (piece, after) = rest
            .split_once('"')
            .ok_or("a quoted field does not end in its line")?;
        field.push_str(piece);
        match after.strip_prefix('"') {
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None => return Ok((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_may_be_quoted() {
        for (line, wanted) in [
            ("a.crt,a.key", &["a.crt", "a.key"][..]),
            (
                " a.crt , a.key ,a.example",
                &["a.crt", "a.key", "a.example"],
            ),
            (r#""a,1.crt", "b""2.key",,"#, &["a,1.crt", "b\"2.key", "", ""]),
            (r#"a"b.crt,"#, &["a\"b.crt", ""]),
        ] {
            assert_eq!(fields(line).unwrap(), wanted, "{line}");
        }
        assert!(fields(r#""a.crt,a.key"#).is_err());
        assert!(fields(r#""a.crt"b,a.key"#).is_err());
    }

    #[test]
    fn a_line_is_a_pair() {
        let read = |line: &str| pair(Path::new("list:1"), line, Path::new("/base"));
        for line in ["", "  ", "# a.crt,a.key", "Chain,Key,Hosts"] {
            assert!(read(line).unwrap().is_none(), "{line}");
        }
        let found = read("a.crt,/b/a.key,*.a.example,a.example").unwrap().unwrap();
        let hosts = ["*.a.example", "a.example"];
        let hosts = hosts.map(|host| HostPattern::parse(host).unwrap());
        assert_eq!(found.names, Names::Exactly(hosts.to_vec()));
        assert!(matches!(found.chain, Half::File(path) if path == Path::new("/base/a.crt")));
        let key = Path::new("/b/a.key");
        assert!(matches!(found.key, Key::Apart(Half::File(path)) if path == key));
        let found = read("a.pem,").unwrap().unwrap();
        assert_eq!(found.names, Names::OfLeaf(Vec::new()));
        assert!(matches!(found.key, Key::InChain));
        for (line, reason) in [
            ("a.crt", "chain,key[,host…]"),
            (",a.key", "chain,key[,host…]"),
            ("a.crt,a.key,a b", "must not stand in a host name"),
        ] {
            let refused = read(line).unwrap_err();
            assert!(refused.reason.contains(reason), "{line}: {refused:?}");
        }
    }
}
