//! Opens the sources of an import: each is a folder, a file, an archive or a server of Redis.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::iter;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use flate2::bufread::MultiGzDecoder;
use sekisho_stores::files::read_bounded;
use sekisho_stores::redis::RedisUrl;

use super::layout::{Layout, recognise};
use super::source::{Names, Pairs};
use super::{acme_json, archive, folder, list, redis};
use crate::terminal::failure::{Result, Usage};

/// Layout of a source, and the number of folders that may lie between it and its files.
pub(super) type LayoutAt = (Layout, usize);
/// Source: its path without links, or its URL without a password; its layout, and its pairs,
/// which are read as they are asked for.
type Source = (String, LayoutAt, Pairs);

/// Opens a source, and recognises its layout unless that is known. `prefix` is where the paths
/// of a crt-list begin, or the keys of Redis.
///
/// # Errors
/// If the layout of the source is in doubt.
pub(super) fn open(path: &Path, known: Option<LayoutAt>, prefix: Option<&Path>) -> Result<Source> {
    let layout = known.map(|(layout, _)| layout);
    let is_redis = |text: &&str| text.starts_with("redis") && text.contains("://");
    if let Some(url) = path.to_str().filter(is_redis) {
        return open_redis(url, layout.unwrap_or(Layout::Redis), prefix);
    }
    if path == Path::new(STANDARD_INPUT) {
        return open_archive(path, io::stdin(), layout);
    }
    let named = || path.display().to_string();
    let path = fs::canonicalize(path).with_context(named)?;
    if path.is_dir() {
        return open_folder(&path, known);
    }
    ensure!(path.is_file(), "{}: is no file and no folder", named());
    let head = read_bounded(&path, HEAD).with_context(named)?;
    match is_archive(&head) {
        true => open_archive(&path, File::open(&path).with_context(named)?, layout),
        false => open_file(&path, &head, layout, prefix),
    }
}

fn open_folder(path: &Path, known: Option<LayoutAt>) -> Result<Source> {
    let shown = path.display().to_string();
    let (layout, depth) = match known {
        Some(known) => known,
        None => {
            let files = folder::some_files(path).with_context(|| shown.clone())?;
            let layout = the_one(path, &files)?;
            let mut here = files.iter().filter(|file| file.parent() == Some(path));
            let is_too_high = !here.any(|file| layout.is_recognised_by(file));
            (layout, layout.depth() + usize::from(is_too_high))
        }
    };
    let pairs = folder::pairs(path, layout, depth).with_context(|| shown.clone())?;
    Ok((shown, (layout, depth), pairs))
}

fn open_file(
    path: &Path,
    head: &[u8],
    layout: Option<Layout>,
    prefix: Option<&Path>,
) -> Result<Source> {
    let shown = path.display().to_string();
    let unknown = || Usage(format!("{shown}: {UNKNOWN}"));
    let layout = layout.or_else(|| of_file(head)).ok_or_else(unknown)?;
    let pairs = match layout {
        Layout::Traefik => acme_json::pairs(path),
        Layout::List => list::pairs(path, None, list::csv_line),
        Layout::Haproxy if contains(head, PEM) => {
            let pair = folder::bundle(path, Names::OfLeaf(Vec::new()));
            Ok(Box::new(iter::once(Ok(pair))) as Pairs)
        }
        Layout::Haproxy => list::pairs(path, prefix, list::crt_list_line),
        _ => return Err(not_for(layout, &shown, "a file")),
    };
    let pairs = pairs.with_context(|| shown.clone())?;
    Ok((shown, (layout, 0), pairs))
}

/// Begins to read an archive of tar, also one by gzip.
fn open_archive(
    path: &Path,
    reader: impl Read + Send + 'static,
    layout: Option<Layout>,
) -> Result<Source> {
    let shown = path.display().to_string();
    let why = "name the layout of the archive with --layout";
    let unknown = || Usage(format!("{shown}: {why}"));
    let layout = layout.ok_or_else(unknown)?;
    let mut reader = BufReader::new(reader);
    let begin = reader.fill_buf().with_context(|| shown.clone())?;
    let reader: Box<dyn Read + Send> = match begin.starts_with(GZIP) {
        true => Box::new(MultiGzDecoder::new(reader)),
        false => Box::new(reader),
    };
    Ok((shown, (layout, 0), archive::pairs(path, reader, layout)))
}

fn open_redis(url: &str, layout: Layout, prefix: Option<&Path>) -> Result<Source> {
    let url = RedisUrl::parse(url, Path::new("")).map_err(Usage)?;
    let shown = url.to_string();
    if !matches!(layout, Layout::Redis | Layout::AutoSsl | Layout::RestyAcme) {
        return Err(not_for(layout, &shown, "Redis"));
    }
    let prefix = prefix.unwrap_or(Path::new("")).to_string_lossy();
    let pairs = redis::pairs(&url, layout, prefix.into_owned())?;
    Ok((shown, (layout, 0), pairs))
}

/// Returns the layout that files have.
///
/// # Errors
/// If none or several have their signs, what lies there.
fn the_one(folder: &Path, files: &[PathBuf]) -> Result<Layout> {
    let (shown, found) = (folder.display(), recognise(folder, files));
    let count = files.len();
    match found[..] {
        [] => bail!("{shown}: nothing to import among {count} files; {ADVICE}"),
        [(layout, _)] => return Ok(layout),
        _ => {}
    }
    let could = found.iter();
    let could = could.map(|(layout, count)| format!("{layout} ({count})"));
    let could = could.collect::<Vec<_>>().join(" or ");
    Err(Usage(format!("{shown} could be {could}; {ADVICE}")).into())
}

/// Refuses a layout for a source of another kind.
fn not_for(layout: Layout, shown: &str, kind: &str) -> anyhow::Error {
    Usage(format!("--layout {layout} is not for {kind}: {shown}")).into()
}

fn is_archive(head: &[u8]) -> bool {
    let end = head.get(TAR_MAGIC_AT..).unwrap_or_default();
    end.starts_with(TAR_MAGIC) || head.starts_with(GZIP)
}

/// Recognises a file by its beginning; none if it is none of ours.
fn of_file(head: &[u8]) -> Option<Layout> {
    if contains(head, PEM) {
        return Some(Layout::Haproxy);
    }
    let text = String::from_utf8_lossy(head);
    let is_data = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let mut lines = text.lines();
    let first = lines.find(is_data).filter(|_| !text.contains('\0'))?;
    // A comma stands after the first field of a CSV file, and in a crt-list among options alone.
    let word = first.split([' ', '\t', '[']).next().unwrap_or_default();
    Some(match first.trim_start().starts_with('{') {
        true => Layout::Traefik,
        false if word.contains(',') => Layout::List,
        false => Layout::Haproxy,
    })
}

/// Returns whether bytes occur among others.
pub(super) fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Bytes of a file by which its kind is told. Text may stand before PEM.
const HEAD: usize = 512;
const PEM: &[u8] = b"-----BEGIN ";
/// Place of the word that begins the magic of tar, of POSIX and GNU.
const TAR_MAGIC_AT: usize = 257;
const TAR_MAGIC: &[u8] = b"ustar";
const GZIP: &[u8] = b"\x1f\x8b";
/// Path that stands for an archive on standard input.
pub(super) const STANDARD_INPUT: &str = "-";
const ADVICE: &str = "name the layout with --layout, or each pair with --chain and --key";
const UNKNOWN: &str = "is no list, no acme.json and no PEM; name the layout with --layout";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_recognised_by_their_beginning() {
        let bag = "Bag Attributes\n-----BEGIN CERTIFICATE-----";
        let options = "a.pem [alpn h2,http/1.1] a.example\n";
        for (head, layout) in [
            ("-----BEGIN PRIVATE KEY-----\n", Some(Layout::Haproxy)),
            (bag, Some(Layout::Haproxy)),
            ("\n {\"le\":{\"Account\":{", Some(Layout::Traefik)),
            ("# ours\na.crt,a.key,a.example\n", Some(Layout::List)),
            ("chain,key\n", Some(Layout::List)),
            (options, Some(Layout::Haproxy)),
            ("a.pem[alpn h2,http/1.1]\n", Some(Layout::Haproxy)),
            ("# nothing\n", None),
            ("a\0b", None),
            ("", None),
        ] {
            assert_eq!(of_file(head.as_bytes()), layout, "{head:?}");
        }
    }

    #[test]
    fn doubt_and_emptiness_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let error = || {
            let opened = open(folder.path(), None, None);
            format!("{:#}", opened.err().expect("an error"))
        };
        assert!(error().contains("nothing to import among 0 files"));
        fs::write(folder.path().join("README"), "").unwrap();
        assert!(error().contains("nothing to import among 1 files"));
        fs::write(folder.path().join("a.pem"), "").unwrap();
        fs::write(folder.path().join("b.crt"), "").unwrap();
        let told = "could be haproxy (1) or flat (1); name the layout with --layout";
        assert!(error().contains(told), "{}", error());
    }

    #[test]
    fn one_folder_of_certbot_does_not_stand_for_the_pairs_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("old")).unwrap();
        let add = |name: &str| fs::write(folder.path().join(name), "").unwrap();
        let opened = || open(folder.path(), None, None).map(|(_, (layout, _), _)| layout);
        add("old/fullchain.pem");
        add("ca.example.crt");
        assert_eq!(opened().unwrap(), Layout::Certbot, "no pair is left out");
        add("a.example.crt");
        add("a.example.key");
        let error = opened().unwrap_err().to_string();
        let told = "could be certbot (1) or flat (1);";
        assert!(error.contains(told), "{error}");
    }

    #[test]
    fn the_only_folder_of_flat_pairs_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let add = |name: &str| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        };
        let count = || open(folder.path(), None, None).unwrap().2.count();
        add("certs/a.example.crt");
        add("certs/b.example.crt");
        add("deep/er/c.example.crt");
        assert_eq!(count(), 2);
        add("d.example.crt");
        assert_eq!(count(), 1, "others are other sources");
    }
}
