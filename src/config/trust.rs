//! Checks whether others may write or read a configuration.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;
use sekisho_stores::own_file::folder;

/// Checks that only root and the caller can have written `file` or put it
/// there. Its `command:` runs as the caller. Returns the first part that another
/// user could change, and what to do.
///
/// # Errors
/// If the file's metadata can't be read.
pub(super) fn check(file: &Path) -> io::Result<Option<String>> {
    Ok(judge(file)?.map(|problem| {
        format!(
            "{problem}, so it is not taken unless it is named: --config {}",
            file.display()
        )
    }))
}

fn judge(file: &Path) -> io::Result<Option<String>> {
    let caller = geteuid().as_raw();
    // Checks the link, its target, and its folder.
    let judged = [
        ("it", fs::symlink_metadata(file)?),
        ("it", fs::metadata(file)?),
        ("its folder", fs::metadata(folder(file))?),
    ];
    let mut judged = judged.iter();
    Ok(judged.find_map(|(what, metadata)| problem(what, metadata, caller)))
}

/// Exposure of a configuration that is used all the same, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exposure {
    pub(crate) problem: String,
    pub(crate) hint: &'static str,
}

/// Lists how a configuration is exposed. `has_password` says whether it has a
/// password.
///
/// # Errors
/// If the file's metadata can't be read.
pub(super) fn exposures(file: &Path, has_password: bool) -> io::Result<Vec<Exposure>> {
    let mut exposures = Vec::new();
    if let Some(problem) = judge(file)? {
        let hint = "with `command:` in it, others can run what they like as you; run chmod go-w";
        exposures.push(Exposure { problem, hint });
    }
    let mode = fs::metadata(file)?.mode() & 0o777;
    if has_password && mode & 0o004 != 0 {
        let problem = format!("it holds a password, and everybody may read it (mode {mode:o})");
        let hint = "run chmod o-r";
        exposures.push(Exposure { problem, hint });
    }
    Ok(exposures)
}

/// Returns how a script is exposed. A file that can't be looked at is none: reading it
/// fails.
pub(super) fn script(file: &Path) -> Option<Exposure> {
    let problem = judge(file).ok()??;
    Some(Exposure {
        problem: format!("[hook] script: {problem}"),
        hint: "others can choose what handshakes get; run chmod go-w",
    })
}

fn problem(what: &str, metadata: &Metadata, caller: u32) -> Option<String> {
    let owner = metadata.uid();
    if owner != 0 && owner != caller {
        return Some(format!(
            "{what} belongs to user {owner}, neither to root nor to you"
        ));
    }
    // The kernel ignores a link's own mode.
    let mode = metadata.mode() & 0o777;
    (!metadata.is_symlink() && mode & 0o022 != 0)
        .then(|| format!("{what} can be written by others (mode {mode:o})"))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn a_file_that_others_could_write_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sekisho.toml");
        fs::write(&file, "").unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        let refused = || check(&file).unwrap().unwrap();

        mode(&file, 0o644).unwrap();
        assert_eq!(check(&file).unwrap(), None);
        mode(&file, 0o664).unwrap();
        assert!(refused().starts_with("it can be written by others (mode 664)"));
        mode(&file, 0o600).unwrap();
        mode(folder.path(), 0o777).unwrap();
        let text = refused();
        assert!(text.starts_with("its folder can be written"), "{text}");
        assert!(text.contains("--config /"), "{text}");
    }

    #[test]
    fn a_named_file_is_taken_with_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sekisho.toml");
        fs::write(&file, "").unwrap();
        for (mode, has_password, wanted) in [
            (0o600, true, &[][..]),
            (0o640, true, &[]),
            (0o644, false, &[]),
            (0o644, true, &["everybody may read it (mode 644)"]),
            (0o664, false, &["it can be written by others (mode 664)"]),
        ] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let found = exposures(&file, has_password).unwrap();
            assert_eq!(found.len(), wanted.len(), "{mode:o}: {found:?}");
            for (exposure, wanted) in found.iter().zip(wanted) {
                assert!(exposure.problem.contains(wanted), "{exposure:?}");
                assert!(exposure.hint.contains("chmod"), "{exposure:?}");
            }
        }
    }

    #[test]
    fn a_strangers_file_is_not_taken() {
        if !geteuid().is_root() {
            // Only root can give files away.
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(check(&link).unwrap(), None);
        chown(&file, Some(12345), None).unwrap();
        for path in [&file, &link] {
            let refused = check(path).unwrap().unwrap();
            assert!(refused.contains("belongs to user 12345"), "{refused}");
        }
    }
}
