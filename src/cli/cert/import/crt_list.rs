//! Reads HAProxy's lists of certificates, `crt-list`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use sekisho_certs::HostPattern;

use super::folder::bundle;
use super::lines::{Lines, UNREADABLE};
use super::source::{Names, Pairs, Refusal};

/// Lists the pairs of a list. Its paths begin in `base`, else in the list's own folder.
pub(super) fn pairs(list: &Path, base: Option<&Path>) -> io::Result<Pairs> {
    let base = base.or(list.parent()).unwrap_or(Path::new("")).to_owned();
    let entries = Lines::open(list)?.filter_map(|line| match line {
        Ok((place, line)) => entry(&place, &line).transpose(),
        Err(refusal) => Some(Err(refusal)),
    });
    Ok(Box::new(entries.flat_map(move |entry| match entry {
        Ok(entry) => {
            let files = bundles(base.join(entry.file));
            let pair = |file: &PathBuf| Ok(bundle(file, entry.names.clone()));
            files.iter().map(pair).collect::<Vec<_>>()
        }
        Err(refusal) => vec![Err(refusal)],
    })))
}

/// Line of a list.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    file: String,
    names: Names,
}

/// Reads a line, `FILE [[OPTIONS]] [[!]NAME…]`; none if there is no file. HAProxy serves exactly
/// the names of a line, if there are any.
fn entry(place: &Path, line: &str) -> Result<Option<Entry>, Refusal> {
    let refuse = |reason: &str| Refusal::new(place, UNREADABLE, reason);
    let line = if line.starts_with('#') { "" } else { line };
    let (before, after) = without_options(line).map_err(refuse)?;
    let mut words = before.split_whitespace();
    let Some(file) = words.next() else {
        return Ok(None);
    };
    if file.starts_with('@') {
        return Err(refuse("a certificate of a crt-store can't be found by its name"));
    }
    // HAProxy takes no names from between the file and its options.
    let names: Vec<_> = match after {
        Some(after) => after.split_whitespace().collect(),
        None => words.collect(),
    };
    Ok(Some(Entry {
        file: file.to_owned(),
        names: hosts(place, &names)?,
    }))
}

/// Splits a line at its options, which are left out.
fn without_options(line: &str) -> Result<(&str, Option<&str>), &'static str> {
    let Some((before, rest)) = line.split_once('[') else {
        let is_closed = line.contains(']');
        return match is_closed {
            true => Err("']' stands without '['"),
            false => Ok((line, None)),
        };
    };
    let (_, after) = rest.split_once(']').ok_or("'[' stands without ']'")?;
    match after.contains(['[', ']']) || before.trim().is_empty() {
        true => Err("options stand after the file, and once"),
        false => Ok((before, Some(after))),
    }
}

/// Reads the names of a line. A name with `!` is an exception from a wildcard, which other hosts
/// of the store make, and `*` stands for the certificate's own names.
fn hosts(place: &Path, names: &[&str]) -> Result<Names, Refusal> {
    let wanted: Vec<_> = names.iter().filter(|name| !name.starts_with('!')).collect();
    if names.is_empty() || wanted.contains(&&"*") {
        return Ok(Names::OfLeaf(Vec::new()));
    }
    if wanted.is_empty() {
        let reason = "the line names only exceptions";
        return Err(Refusal::new(place, "no host is named", reason));
    }
    let hosts = wanted.iter().map(|name| HostPattern::parse(name));
    let hosts: Result<Vec<_>, _> = hosts.collect();
    match hosts {
        Ok(hosts) => Ok(Names::Exactly(hosts)),
        Err(error) => Err(Refusal::new(place, "a name is no host", error.to_string())),
    }
}

/// Returns the files of a line: the one that it names, or one for each type of key.
fn bundles(file: PathBuf) -> Vec<PathBuf> {
    if file.exists() {
        return vec![file];
    }
    let typed = KEY_TYPES.map(|ending| {
        let mut typed = OsString::from(&file);
        typed.push(ending);
        PathBuf::from(typed)
    });
    let there: Vec<_> = typed.into_iter().filter(|file| file.exists()).collect();
    match there.is_empty() {
        true => vec![file],
        false => there,
    }
}

/// Endings of the files of one certificate for each type of key.
const KEY_TYPES: [&str; 3] = [".rsa", ".ecdsa", ".dsa"];

#[cfg(test)]
mod tests {
    use super::super::source::{Half, Key};
    use super::*;

    fn named(names: &[&str]) -> Names {
        let hosts = names.iter().map(|name| HostPattern::parse(name).unwrap());
        Names::Exactly(hosts.collect())
    }

    #[test]
    fn a_line_has_a_file_options_and_names() {
        let all = || Names::OfLeaf(Vec::new());
        for (line, file, names) in [
            ("a.pem", "a.pem", all()),
            ("  a.pem  ", "a.pem", all()),
            ("a.pem a.example", "a.pem", named(&["a.example"])),
            ("a.pem [alpn h2,http/1.1]", "a.pem", all()),
            (
                "a.pem[verify none ocsp-update on] a.example *.b.example",
                "a.pem",
                named(&["a.example", "*.b.example"]),
            ),
            (
                "a.pem ignored.example [alpn h2] a.example",
                "a.pem",
                named(&["a.example"]),
            ),
            (
                "a.pem *.a.example !x.a.example",
                "a.pem",
                named(&["*.a.example"]),
            ),
            ("a.pem *", "a.pem", all()),
        ] {
            let file = file.to_owned();
            let read = entry(Path::new("list:1"), line).unwrap();
            assert_eq!(read, Some(Entry { file, names }), "{line}");
        }
        for line in ["", "   ", "# a.pem"] {
            assert_eq!(entry(Path::new("list:1"), line).unwrap(), None);
        }
        for (line, reason) in [
            ("a.pem [alpn h2", "'[' stands without ']'"),
            ("a.pem alpn] a.example", "']' stands without '['"),
            ("a.pem [a] [b]", "and once"),
            ("[alpn h2] a.pem", "after the file"),
            ("@web/a.pem", "crt-store"),
            ("a.pem !a.example", "only exceptions"),
            ("a.pem a_b!", "must not stand in a host name"),
        ] {
            let refused = entry(Path::new("list:1"), line).unwrap_err();
            assert!(refused.reason.contains(reason), "{line}: {refused:?}");
        }
    }

    #[test]
    fn paths_begin_in_the_lists_folder() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        // The last line has no end, which HAProxy refuses.
        write("list", "# all\r\na.pem\nb.pem b.example\n\n/c/c.pem\nx\u{1b}!\nd.pem [").unwrap();
        for name in ["a.pem", "a.pem.key", "b.pem.rsa", "b.pem.ecdsa"] {
            write(name, "").unwrap();
        }
        let read: Vec<_> = pairs(&folder.path().join("list"), None).unwrap().collect();
        let at = |name: &str| folder.path().join(name);
        let files = read.iter().filter_map(|read| match &read.as_ref().ok()?.chain {
            Half::File(path) => Some(path.clone()),
            Half::Bytes(..) => None,
        });
        let missing = PathBuf::from("/c/c.pem");
        let named = [at("a.pem"), at("b.pem.rsa"), at("b.pem.ecdsa"), missing];
        let files: Vec<_> = files.collect();
        assert_eq!(files[..4], named);
        assert_eq!(files[4], at("x\u{1b}!"), "its reader refuses it");
        let Key::InChainOr(Half::File(key)) = &read[0].as_ref().unwrap().key else {
            panic!("{read:?}");
        };
        assert_eq!(*key, at("a.pem.key"));
        let refused = read.last().unwrap().as_ref().unwrap_err();
        assert!(refused.place.ends_with("list:7"), "{refused:?}");
    }
}
