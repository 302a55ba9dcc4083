//! Recognises the layout of a source by the paths of its files.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use super::flat::ISSUERS;
use super::{Layout, Role, folder_name};

/// Layouts that a source may have.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli::cert::import) enum Found {
    Nothing,
    One(Layout),
    /// Layouts with the number of their pairs.
    Several(Vec<(Layout, usize)>),
}

/// Recognises the layout of files. What a layout's own names tell counts first: bundles and
/// plain pairs are told by endings alone, which files of the others have, too.
pub(in crate::cli::cert::import) fn recognise(files: &[PathBuf]) -> Found {
    let mut found = count(files, &OWN_NAMES);
    // A few files of other kinds among plain pairs do not make them lego's.
    let only = found.first().copied().filter(|_| found.len() == 1);
    if let Some((Layout::Lego, marks)) = only {
        let plain = pairs(files, Layout::Flat).count();
        if marks * 2 < plain {
            found.push((Layout::Flat, plain));
        }
    }
    if found.is_empty() {
        found = count(files, &ENDINGS);
    }
    if found.len() > 1 {
        return Found::Several(found);
    }
    match found.first() {
        None => Found::Nothing,
        Some((Layout::Certbot, _)) if files.iter().any(|path| is_dehydrated(path)) => {
            Found::One(Layout::Dehydrated)
        }
        Some((layout, _)) => Found::One(*layout),
    }
}

/// Returns the folders in which pairs of a layout lie.
pub(in crate::cli::cert::import) fn found_in(files: &[PathBuf], layout: Layout) -> BTreeSet<&Path> {
    pairs(files, layout).filter_map(Path::parent).collect()
}

fn count(files: &[PathBuf], layouts: &[Layout]) -> Vec<(Layout, usize)> {
    let counted = layouts.iter().map(|layout| match layout {
        Layout::Lego => (Layout::Lego, of_lego(files)),
        layout => (*layout, pairs(files, *layout).count()),
    });
    counted.filter(|(_, count)| *count > 0).collect()
}

/// Lists the files that stand for a pair each.
fn pairs(files: &[PathBuf], layout: Layout) -> impl Iterator<Item = &Path> {
    let files = files.iter().map(PathBuf::as_path);
    files.filter(move |path| match layout {
        Layout::AutoSsl | Layout::RestyAcme => layout.document(path).is_some(),
        Layout::Haproxy => is_bundle(path),
        _ => is_chain(path, layout) && !ends_with(path, ISSUERS),
    })
}

/// Counts lego's further files in folders of pairs. Not all pairs of a large folder were looked
/// at, thus none is asked whether it has one. Caddy has a folder for each pair, with a JSON file.
fn of_lego(files: &[PathBuf]) -> usize {
    let pairs = pairs(files, Layout::Lego);
    let pairs = pairs.filter(|path| !is_chain(path, Layout::Caddy));
    let folders: HashSet<_> = pairs.map(Path::parent).collect();
    let count = |ending| {
        let further = files.iter().filter(|path| ends_with(path, ending));
        further
            .filter(|path| folders.contains(&path.parent()))
            .count()
    };
    count(ISSUERS).max(count(".json"))
}

fn is_chain(path: &Path, layout: Layout) -> bool {
    let part = layout.part(path);
    part.is_some_and(|part| part.role == Role::Chain)
}

/// Tells a bundle of HAProxy, by its ending, from the files of certbot and dehydrated.
fn is_bundle(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let name = path.file_name().and_then(|name| name.to_str());
    let is_certbots = |name: &str| CERTBOTS.iter().any(|first| name.starts_with(first));
    ending.is_some_and(|ending| BUNDLES.contains(&ending)) && !name.is_some_and(is_certbots)
}

/// Tells a file that dehydrated keeps and certbot does not.
fn is_dehydrated(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let is_in_lineage = folder_name(path).is_some();
    let is_its = |name: &str| name == "cert.csr" || name.starts_with("cert-");
    is_in_lineage && name.is_some_and(is_its)
}

fn ends_with(path: &Path, ending: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.ends_with(ending))
}

/// Layouts that have names of their own.
const OWN_NAMES: [Layout; 7] = [
    Layout::Certbot,
    Layout::AcmeSh,
    Layout::Lego,
    Layout::Caddy,
    Layout::Cpanel,
    Layout::AutoSsl,
    Layout::RestyAcme,
];
/// Layouts that are told by endings.
const ENDINGS: [Layout; 2] = [Layout::Haproxy, Layout::Flat];
/// Endings of bundles; HAProxy takes files of any name.
const BUNDLES: [&str; 4] = ["pem", "rsa", "ecdsa", "dsa"];
/// Beginnings of the names of certbot's and dehydrated's files.
const CERTBOTS: [&str; 4] = ["cert", "chain", "fullchain", "privkey"];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[&str]) -> Found {
        let files: Vec<_> = files.iter().map(PathBuf::from).collect();
        recognise(&files)
    }

    #[test]
    fn each_layout_is_recognised_by_names() {
        for (layout, files) in [
            (
                Layout::Certbot,
                &[
                    "le/live/README",
                    "le/live/a.example/cert.pem",
                    "le/live/a.example/fullchain.pem",
                    "le/live/a.example/privkey.pem",
                    "le/archive/a.example/fullchain1.pem",
                ][..],
            ),
            (
                Layout::Dehydrated,
                &[
                    "certs/a.example/cert-1700000000.pem",
                    "certs/a.example/fullchain.pem",
                ],
            ),
            (
                Layout::AcmeSh,
                &["a.example_ecc/a.example.cer", "a.example_ecc/fullchain.cer"],
            ),
            (
                Layout::Lego,
                &["c/a.example.crt", "c/a.example.issuer.crt", "c/a.example.key"],
            ),
            (
                Layout::Lego,
                &["c/a.example.crt", "c/a.example.json", "c/a.example.key"],
            ),
            (
                Layout::Caddy,
                &[
                    "acme/le/users/me@a.example/me.json",
                    "certificates/le/a.example/a.example.crt",
                    "certificates/le/a.example/a.example.json",
                    "pki/authorities/local/root.crt",
                ],
            ),
            (Layout::Cpanel, &["domain_tls/a.example/combined"]),
            (Layout::AutoSsl, &["file/a.example%3Alatest"]),
            (Layout::RestyAcme, &["tmp/ZG9tYWluOnJzYTphLmV4YW1wbGU="]),
            (Layout::Haproxy, &["a.example.pem", "b.example.pem.rsa"]),
            (Layout::Flat, &["a.example.crt", "a.example.key"]),
        ] {
            assert_eq!(found(files), Found::One(layout), "{files:?}");
        }
        for files in [&["README"][..], &["archive/a.example/privkey1.pem"], &[]] {
            assert_eq!(found(files), Found::Nothing, "{files:?}");
        }
    }

    #[test]
    fn doubt_is_told() {
        let several = |found: Found| match found {
            Found::Several(layouts) => layouts,
            other => panic!("{other:?}"),
        };
        let both = found(&["a.example.crt", "a.example.key", "b.example.pem"]);
        assert_eq!(several(both), [(Layout::Haproxy, 1), (Layout::Flat, 1)]);
        let both = found(&["a.example/fullchain.pem", "b.example/fullchain.cer"]);
        assert_eq!(several(both), [(Layout::Certbot, 1), (Layout::AcmeSh, 1)]);
        // One file as lego has it, among many plain pairs.
        let both = found(&["a.crt", "a.json", "b.crt", "c.crt"]);
        assert_eq!(several(both), [(Layout::Lego, 1), (Layout::Flat, 3)]);
    }

    #[test]
    fn folders_of_pairs_are_told() {
        let files = ["x/a.crt", "x/b.crt", "y/c.crt", "z/README"].map(PathBuf::from);
        let folders = found_in(&files, Layout::Flat);
        assert!(folders.iter().eq([Path::new("x"), Path::new("y")].iter()));
    }
}
