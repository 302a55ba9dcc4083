//! Memory that is available to the process.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the bytes available to the process: the system's free memory, or the
/// limit of its control groups (cgroups(7)) if that is less. `root` is `/`
/// except in tests. None if neither is known.
pub(super) fn available(root: &Path) -> Option<u64> {
    group_limits(root).chain(left_in_system(root)).min()
}

fn left_in_system(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Lists the limits of the process's group and of those above it. `max` means
/// no limit, and is skipped.
fn group_limits(root: &Path) -> impl Iterator<Item = u64> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let files: Vec<PathBuf> = text
        .lines()
        .flat_map(|line| limit_files(root, line))
        .collect();
    files
        .into_iter()
        .filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
}

/// Lists the files with limits for one line of `/proc/self/cgroup`. Version 2
/// has one line without controllers, version 1 a hierarchy for `memory`.
fn limit_files(root: &Path, line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
        return Vec::new();
    };
    let (mount, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    // In a container, the process's group may be the mount itself.
    let groups = Path::new(group.trim_start_matches('/')).ancestors();
    groups
        .map(|group| root.join(mount).join(group).join(file))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the available memory of a system with these files.
    fn available_with(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        available(root.path())
    }

    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n",
    );

    #[test]
    fn the_least_limit_counts() {
        let own = ("proc/self/cgroup", "0::/system.slice/sekisho.service\n");
        let unit = "sys/fs/cgroup/system.slice/sekisho.service/memory.max";
        let slice = "sys/fs/cgroup/system.slice/memory.max";
        assert_eq!(available_with(&[]), None);
        assert_eq!(available_with(&[MEMINFO]), Some(8_192_000_000));
        let unlimited = [MEMINFO, own, (unit, "max\n"), (slice, "max\n")];
        assert_eq!(available_with(&unlimited), Some(8_192_000_000));
        let limited = [MEMINFO, own, (unit, "2000\n"), (slice, "max\n")];
        assert_eq!(available_with(&limited), Some(2000));
        let above = [MEMINFO, own, (unit, "2000\n"), (slice, "1000\n")];
        assert_eq!(available_with(&above), Some(1000));
    }

    #[test]
    fn a_group_of_version_1_is_read() {
        let own = (
            "proc/self/cgroup",
            "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n",
        );
        let limit = "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes";
        let all = "sys/fs/cgroup/memory/memory.limit_in_bytes";
        let files = [
            MEMINFO,
            own,
            (limit, "3000\n"),
            (all, "9223372036854771712\n"),
        ];
        assert_eq!(available_with(&files), Some(3000));
    }
}
