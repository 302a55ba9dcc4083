//! Reads lists of pairs: CSV files, and HAProxy's `crt-list`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::iter;
use std::path::{Path, PathBuf};

use sekisho_certs::HostPattern;
use sekisho_stores::own_file::beside;

use super::folder::bundle;
use super::source::{Half, Names, Pair, Pairs, Refusal};

/// Reader of a line, which has the folder in which paths begin.
pub(super) type ReadLine = fn(&Path, &str) -> Result<Vec<Pair>, String>;

/// Lists the pairs of a list. Its paths begin in `base`, else in its own folder.
pub(super) fn pairs(list: &Path, base: Option<&Path>, read: ReadLine) -> io::Result<Pairs> {
    let base = base.or(list.parent()).unwrap_or(Path::new("")).to_owned();
    let lines = lines(list)?;
    Ok(Box::new(lines.flat_map(move |(place, line)| match line {
        Ok(line) if line.is_empty() || line.starts_with('#') => Vec::new(),
        line => match line.and_then(|line| read(&base, &line)) {
            Ok(pairs) => pairs.into_iter().map(Ok).collect(),
            Err(why) => vec![Err(Refusal::new(place, "a line can't be read", why))],
        },
    })))
}

/// Lists the lines of a file, each with its place, `FILE:NUMBER`.
fn lines(
    path: &Path,
) -> io::Result<impl Iterator<Item = (PathBuf, Result<String, String>)> + use<>> {
    let (path, mut number) = (path.to_owned(), 0);
    let mut reader = Some(BufReader::new(File::open(&path)?));
    Ok(iter::from_fn(move || {
        let mut line = Vec::new();
        let mut bounded = reader.as_mut()?.by_ref().take(MAX_LINE);
        let line = match bounded.read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(length) if (length as u64) < MAX_LINE => match String::from_utf8(line) {
                Ok(line) => Ok(line.trim().to_owned()),
                Err(_) => Err("is not UTF-8".to_owned()),
            },
            failed => {
                reader = None;
                let why = failed.map_or_else(|error| error.to_string(), |_| "is too long".into());
                Err(format!("{why}; the rest of the list is left out"))
            }
        };
        number += 1;
        Some((beside(&path, &format!(":{number}")), line))
    }))
}

/// Reads `CHAIN,KEY[,HOST…]`. A key that is empty stands in the chain's file.
pub(super) fn csv_line(base: &Path, line: &str) -> Result<Vec<Pair>, String> {
    let fields: Vec<_> = line.split(',').map(str::trim).collect();
    let (chain, key, hosts) = match &fields[..] {
        ["chain", "key", ..] => return Ok(Vec::new()),
        [chain, key, hosts @ ..] if !chain.is_empty() => (chain, key, hosts),
        _ => return Err("a line has a chain, a key and hosts: chain,key[,host…]".into()),
    };
    let half = |path: &str| Half::File(base.join(path));
    let key = (!key.is_empty()).then(|| half(key));
    Ok(vec![Pair::new(names(hosts)?, half(chain), key)])
}

/// Reads `FILE [[OPTIONS]] [[!]NAME…]`. The file may have one for each type of key instead.
pub(super) fn crt_list_line(base: &Path, line: &str) -> Result<Vec<Pair>, String> {
    let (before, after) = match line.split_once('[') {
        Some((before, rest)) => {
            let options = rest.split_once(']').ok_or("'[' stands without ']'")?;
            (before, options.1)
        }
        None => (line, ""),
    };
    let mut words = before.split_whitespace().chain(after.split_whitespace());
    let file = base.join(words.next().ok_or("a line begins with a file")?);
    let names = names(&words.collect::<Vec<_>>())?;
    let mut files = Vec::from(["", ".rsa", ".ecdsa"].map(|ending| beside(&file, ending)));
    files.retain(|file| file.exists());
    if files.is_empty() {
        files.push(file);
    }
    let pairs = files.iter().map(|file| bundle(file, names.clone()));
    Ok(pairs.collect())
}

/// Reads the hosts of a line, which are served alone if there are any. A name with `!` is an
/// exception from a wildcard, which other hosts of the store make, and `*` stands for the
/// certificate's own names.
fn names(hosts: &[&str]) -> Result<Names, String> {
    let named = |host: &&&str| !host.is_empty() && **host != "*" && !host.starts_with('!');
    let hosts = hosts.iter().filter(named);
    let hosts: Result<Vec<_>, _> = hosts.map(|host| HostPattern::parse(host)).collect();
    let hosts = hosts.map_err(|error| format!("a name is no host: {error}"))?;
    Ok(match hosts.is_empty() {
        true => Names::OfLeaf(hosts),
        false => Names::Exactly(hosts),
    })
}

/// Bytes of a line, with its end: HAProxy takes 65,535 without it.
const MAX_LINE: u64 = 65_537;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Shows the pairs that a line is, or what is wrong with it.
    fn read(read: ReadLine, line: &str) -> String {
        let shown = |pair: &Pair| {
            let key = pair.key.as_ref();
            let key = key.map(|key| key.place().display().to_string());
            let (chain, key) = (pair.chain.place().display(), key.unwrap_or_default());
            let names = match &pair.names {
                Names::OfLeaf(names) if names.is_empty() => String::new(),
                Names::Exactly(names) => names.iter().map(|name| format!(" {name}")).collect(),
                other => panic!("{other:?}"),
            };
            format!("{chain},{key}{names}")
        };
        match read(Path::new("/b"), line) {
            Ok(pairs) => pairs.iter().map(shown).collect::<Vec<_>>().join(";"),
            Err(why) => why,
        }
    }

    #[test]
    fn a_line_of_csv_is_a_pair() {
        for (line, wanted) in [
            ("chain,key,host", ""),
            ("a.crt,a.key", "/b/a.crt,/b/a.key"),
            ("a.pem,", "/b/a.pem,"),
            ("a.crt , /k , *.a.b,a.b,", "/b/a.crt,/k *.a.b a.b"),
        ] {
            assert_eq!(read(csv_line, line), wanted, "{line}");
        }
        for line in ["a.crt", ",a.key"] {
            assert!(read(csv_line, line).contains("chain,key[,host…]"), "{line}");
        }
        assert!(read(csv_line, "a,b,a b").contains("a name is no host"));
    }

    #[test]
    fn a_line_of_a_crt_list_has_a_file_options_and_names() {
        for (line, wanted) in [
            ("a.pem", "/b/a.pem,"),
            ("/c/a.pem a.b", "/c/a.pem, a.b"),
            ("a.pem [alpn h2,http/1.1]", "/b/a.pem,"),
            (
                "a.pem[verify none ocsp-update on] a.b *.c",
                "/b/a.pem, a.b *.c",
            ),
            ("a.pem *.a.b !x.a.b", "/b/a.pem, *.a.b"),
            ("a.pem *", "/b/a.pem,"),
        ] {
            assert_eq!(read(crt_list_line, line), wanted, "{line}");
        }
        assert!(read(crt_list_line, "a.pem [alpn").contains("without ']'"));
        assert!(read(crt_list_line, "a.pem a_b!").contains("a name is no host"));
    }

    #[test]
    fn a_list_is_read_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a.pem", "a.pem.key", "b.pem.rsa", "b.pem.ecdsa"] {
            fs::write(at(name), "").unwrap();
        }
        let text = "# all\r\na.pem\nb.pem b.example\r\n\nx\u{1b}!\nd.pem [\n";
        let long = "x".repeat(MAX_LINE as usize);
        let bytes = [text.as_bytes(), b"\xff\n", long.as_bytes(), b"\na.pem\n"].concat();
        fs::write(at("list"), bytes).unwrap();
        let read = pairs(&at("list"), None, crt_list_line).unwrap();
        let shown = read.map(|read| match read {
            Ok(pair) => (pair.chain.place().to_owned(), pair.key.is_some()),
            Err(refused) => (refused.place, false),
        });
        let wanted = [
            (at("a.pem"), true),
            (at("b.pem.rsa"), false),
            (at("b.pem.ecdsa"), false),
            // The file is refused by its reader.
            (at("x\u{1b}!"), false),
            (at("list:6"), false),
            (at("list:7"), false),
            (at("list:8"), false),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), wanted);
    }
}
