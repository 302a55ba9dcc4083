//! Opens the sources of an import: each is a folder, a file or an archive, whose layout is
//! recognised.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::iter;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use flate2::bufread::MultiGzDecoder;
use sekisho_stores::files::read_bounded;
use sekisho_stores::redis::RedisUrl;

use super::archive::Archive;
use super::folder::{Folder, bundle};
use super::layout::{Found, Layout, found_in, recognise};
use super::source::{Names, Pairs};
use super::{acme_json, crt_list, list, redis};
use crate::terminal::failure::{Result, Usage};

/// Source whose layout is known.
pub(super) struct Source {
    /// As the operator wrote it.
    path: PathBuf,
    layout: Layout,
    kind: Kind,
}

enum Kind {
    File,
    Folder(Folder),
    /// Of tar.
    Archive(Archive),
    Redis(Box<RedisUrl>),
}

impl Source {
    /// Opens a source, and recognises its layout unless it is given.
    pub(super) fn open(path: &Path, layout: Option<Layout>) -> Result<Self> {
        let named = || path.display().to_string();
        if let Some(url) = path.to_str().filter(|text| is_redis(text)) {
            return Self::redis(url, layout);
        }
        if path == Path::new(STANDARD_INPUT) {
            return Self::archive(path, io::stdin(), layout);
        }
        let metadata = fs::metadata(path).with_context(named)?;
        if metadata.is_file() {
            let head = read_bounded(path, HEAD).with_context(named)?;
            let end = head.get(TAR_MAGIC_AT..).unwrap_or_default();
            if end.starts_with(TAR_MAGIC) || head.starts_with(GZIP) {
                return Self::archive(path, File::open(path).with_context(named)?, layout);
            }
            let layout = layout.or_else(|| of_file(&head));
            let layout = layout.ok_or_else(|| anyhow!("{}: {UNKNOWN}", named()))?;
            return Self::file(path.to_owned(), layout);
        }
        let is_folder = metadata.is_dir();
        ensure!(is_folder, "{}: is no regular file and no folder", named());
        let folder = Folder::open(path).with_context(named)?;
        match layout {
            Some(layout) if layout.is_whole() => Err(not_for(layout, path, "a folder")),
            Some(layout) => Ok(Self::folder(folder, layout)),
            None => Self::recognised(folder),
        }
    }

    /// Recognises the layout of a folder.
    fn recognised(folder: Folder) -> Result<Self> {
        let shown = folder.shown.display().to_string();
        let files = folder.some_files().with_context(|| shown.clone())?;
        let Some(layout) = one_of(&shown, recognise(&files))? else {
            return match acme_json_in(&files) {
                Some(file) => Self::file(file, Layout::Traefik),
                None => bail!("{shown}: {}", explain(&folder, None)?),
            };
        };
        let folder = match layout.depth() {
            0 => folder.narrowed(&found_in(&files, layout)),
            _ => Some(folder),
        };
        let folder = folder.ok_or_else(|| {
            let text = "pairs lie in several folders: name those to import";
            Usage(format!("{shown}: {text}"))
        })?;
        Ok(Self::folder(folder, layout))
    }

    fn folder(folder: Folder, layout: Layout) -> Self {
        Self {
            path: folder.shown.clone(),
            layout,
            kind: Kind::Folder(folder),
        }
    }

    /// Begins to read an archive, also one by gzip, and recognises its layout by its first files.
    fn archive(
        path: &Path,
        reader: impl Read + Send + 'static,
        layout: Option<Layout>,
    ) -> Result<Self> {
        let shown = path.display().to_string();
        let mut reader = BufReader::with_capacity(ARCHIVE_BUFFER, reader);
        let begin = reader.fill_buf().with_context(|| shown.clone())?;
        let mut archive = match begin.starts_with(GZIP) {
            true => Archive::new(path, Box::new(MultiGzDecoder::new(reader))),
            false => Archive::new(path, Box::new(reader)),
        };
        let layout = match layout {
            Some(layout) if layout.is_whole() => return Err(not_for(layout, path, "an archive")),
            Some(layout) => layout,
            None => {
                let files = archive.hold();
                let found = one_of(&shown, recognise(&files))?;
                let count = files.len();
                let text = "no layout is that of its first files, of which there are";
                found.ok_or_else(|| anyhow!("{shown}: {text} {count}; name it with --layout"))?
            }
        };
        Ok(Self {
            path: path.to_owned(),
            layout,
            kind: Kind::Archive(archive),
        })
    }

    fn redis(url: &str, layout: Option<Layout>) -> Result<Self> {
        let url = RedisUrl::parse(url, Path::new("")).map_err(|why| anyhow!("{why}"))?;
        let layout = layout.unwrap_or(Layout::Redis);
        if !matches!(layout, Layout::Redis | Layout::AutoSsl | Layout::RestyAcme) {
            return Err(not_for(layout, Path::new(&url.to_string()), "Redis"));
        }
        Ok(Self {
            path: PathBuf::from(url.to_string()),
            layout,
            kind: Kind::Redis(Box::new(url)),
        })
    }

    fn file(path: PathBuf, layout: Layout) -> Result<Self> {
        let is_of_file = matches!(layout, Layout::Traefik | Layout::List | Layout::Haproxy);
        if !is_of_file {
            return Err(not_for(layout, &path, "a file"));
        }
        Ok(Self {
            path,
            layout,
            kind: Kind::File,
        })
    }

    /// Tells what is read, for the operator.
    pub(super) fn describe(&self) -> String {
        let (layout, path) = (self.layout, self.path.display());
        format!("reading the layout of {layout} in {path}")
    }

    /// Counts the pairs, for a progress bar; none if that takes as long as reading them.
    pub(super) fn count(&self) -> Option<u64> {
        match &self.kind {
            Kind::Folder(folder) => folder.count(self.layout).ok(),
            Kind::File | Kind::Archive(_) | Kind::Redis(_) => None,
        }
    }

    /// Lists the pairs. `base` is where the paths of a crt-list begin, or the keys of Redis.
    ///
    /// # Errors
    /// If a folder has none, what lies there.
    pub(super) fn pairs(self, named_only: bool, base: Option<&Path>) -> Result<Pairs> {
        let (path, layout) = (self.path, self.layout);
        let named = || path.display().to_string();
        let pairs = match self.kind {
            Kind::File => of_one(&path, layout, base).with_context(named)?,
            Kind::Folder(folder) => folder.pairs(layout).with_context(named)?,
            Kind::Archive(archive) => archive.pairs(layout),
            Kind::Redis(url) => {
                let prefix = base.unwrap_or(Path::new("")).to_string_lossy();
                redis::pairs(*url, layout, prefix.into_owned()).with_context(named)?
            }
        };
        let mut pairs = pairs.peekable();
        if pairs.peek().is_none() {
            match Folder::open(&path) {
                Ok(folder) if path.is_dir() => {
                    bail!("{}: {}", named(), explain(&folder, Some(layout))?)
                }
                _ => bail!("{}: has no pairs of the layout {layout}", named()),
            }
        }
        Ok(match named_only {
            true => Box::new(pairs.map(move |pair| layout.narrow(pair?))) as Pairs,
            false => Box::new(pairs) as Pairs,
        })
    }
}

/// Returns the layout that was found; none if none was.
fn one_of(shown: &str, found: Found) -> Result<Option<Layout>> {
    let layouts = match found {
        Found::Nothing => return Ok(None),
        Found::One(layout) => return Ok(Some(layout)),
        Found::Several(layouts) => layouts,
    };
    let could = layouts.iter().map(|(layout, pairs)| match pairs {
        1 => format!("{layout} (1 pair)"),
        _ => format!("{layout} ({pairs} pairs)"),
    });
    let could = could.collect::<Vec<_>>().join(" or ");
    Err(Usage(format!("{shown} could be {could}: name it with --layout")).into())
}

/// Refuses a layout for a source of another kind.
fn not_for(layout: Layout, path: &Path, kind: &str) -> anyhow::Error {
    let (wanted, shown) = (layout.wanted(), path.display());
    Usage(format!("--layout {layout} takes {wanted}; {shown} is {kind}")).into()
}

/// Lists the pairs of one file.
fn of_one(path: &Path, layout: Layout, base: Option<&Path>) -> io::Result<Pairs> {
    match layout {
        Layout::Traefik => acme_json::pairs(path),
        Layout::List => list::pairs(path),
        _ if contains(&read_bounded(path, HEAD)?, PEM) => {
            let pair = bundle(path, Names::OfLeaf(Vec::new()));
            Ok(Box::new(iter::once(Ok(pair))))
        }
        _ => crt_list::pairs(path, base),
    }
}

/// Returns whether a source is a URL of Redis.
fn is_redis(source: &str) -> bool {
    let scheme = source.split_once("://").map(|(scheme, _)| scheme);
    matches!(scheme, Some("redis" | "rediss" | "redis+sentinel" | "redis+cluster"))
}

/// Recognises a file by its beginning; none if it is none of ours.
fn of_file(head: &[u8]) -> Option<Layout> {
    if contains(head, PEM) {
        return Some(Layout::Haproxy);
    }
    let text = String::from_utf8_lossy(head);
    let is_data = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let first = text.lines().find(is_data)?;
    if first.trim_start().starts_with('{') {
        return Some(Layout::Traefik);
    }
    if text.contains('\0') {
        return None;
    }
    // A comma stands after the first field of a CSV file, and in a crt-list among options alone.
    let end = first.find([' ', '\t', '[']).unwrap_or(first.len());
    Some(match first[..end].contains(',') {
        true => Layout::List,
        false => Layout::Haproxy,
    })
}

/// Returns the file of Traefik among those of a folder, by its account, which stands first.
fn acme_json_in(files: &[PathBuf]) -> Option<PathBuf> {
    let is_it = |path: &&PathBuf| {
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        is_json && read_bounded(path, HEAD).is_ok_and(|head| contains(&head, ACCOUNT))
    };
    let mut found = files.iter().filter(is_it);
    found.next().filter(|_| found.next().is_none()).cloned()
}

/// Describes a folder in which a layout found nothing, and the layout that would fit.
fn explain(folder: &Folder, layout: Option<Layout>) -> io::Result<String> {
    let wanted = layout.map(|layout| format!("; --layout {layout} takes {}", layout.wanted()));
    let wanted = wanted.unwrap_or_default();
    let entries = fs::read_dir(&folder.shown)?.flatten();
    let (folders, files): (Vec<_>, Vec<_>) = entries
        .take(COUNTED)
        .partition(|entry| entry.path().is_dir());
    let (files, folders) = (files.len(), folders.len());
    if files + folders == 0 {
        return Ok(format!("the folder is empty{wanted}"));
    }
    let advice = match recognise(&folder.some_files()?) {
        Found::One(layout) => format!("use --layout {layout}"),
        Found::Nothing | Found::Several(_) => {
            "no layout takes these: name each pair with --chain and --key".to_owned()
        }
    };
    Ok(format!(
        "nothing to import among {files} files and {folders} folders{wanted}; {advice}"
    ))
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Bytes of a file by which its kind is told. Text may stand before PEM.
const HEAD: usize = 512;
const PEM: &[u8] = b"-----BEGIN ";
/// Place of the word that begins the magic of tar, of POSIX and GNU.
const TAR_MAGIC_AT: usize = 257;
const TAR_MAGIC: &[u8] = b"ustar";
const GZIP: &[u8] = b"\x1f\x8b";
const STANDARD_INPUT: &str = "-";
const ARCHIVE_BUFFER: usize = 64 * 1024;
const ACCOUNT: &[u8] = b"\"Account\"";
/// Entries of a folder that are counted to describe it.
const COUNTED: usize = 10_000;
const UNKNOWN: &str = "is no list, no acme.json and no PEM; name the layout with --layout";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_recognised_by_their_beginning() {
        for (head, layout) in [
            ("-----BEGIN PRIVATE KEY-----\n", Some(Layout::Haproxy)),
            (
                "Bag Attributes\n-----BEGIN CERTIFICATE-----",
                Some(Layout::Haproxy),
            ),
            ("\n {\"le\":{\"Account\":{", Some(Layout::Traefik)),
            ("# ours\na.crt,a.key,a.example\n", Some(Layout::List)),
            ("chain,key\n", Some(Layout::List)),
            (
                "a.pem [alpn h2,http/1.1] a.example\n",
                Some(Layout::Haproxy),
            ),
            ("a.pem[alpn h2,http/1.1]\n", Some(Layout::Haproxy)),
            ("# nothing\n", None),
            ("a\0b", None),
            ("", None),
        ] {
            assert_eq!(of_file(head.as_bytes()), layout, "{head:?}");
        }
    }

    #[test]
    fn a_folder_of_traefik_is_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("traefik.json", "{}");
        write("acme.json", r#"{"le":{"Account":{"Email":""#);
        let source = Source::open(folder.path(), None).unwrap();
        let file = folder.path().join("acme.json");
        assert_eq!(source.layout, Layout::Traefik);
        assert_eq!(source.path.file_name(), file.file_name());
    }

    #[test]
    fn doubt_and_emptiness_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let error = |layout| {
            let source = Source::open(folder.path(), layout);
            let pairs = source.and_then(|source| source.pairs(false, None));
            format!("{:#}", pairs.err().expect("an error"))
        };
        assert!(error(None).ends_with(": the folder is empty"));
        let told = "the folder is empty; --layout cpanel takes NAME/combined";
        assert!(error(Some(Layout::Cpanel)).ends_with(told));
        fs::write(folder.path().join("a.pem"), "").unwrap();
        let told = "among 1 files and 0 folders; --layout flat takes NAME.crt with NAME.key; \
                    use --layout haproxy";
        assert!(error(Some(Layout::Flat)).ends_with(told));
        fs::write(folder.path().join("b.crt"), "").unwrap();
        let told = "could be haproxy (1 pair) or flat (1 pair): name it with --layout";
        assert!(error(None).ends_with(told), "{}", error(None));
    }
}
