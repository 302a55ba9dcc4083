//! Ends services and removes their folder when the test process has ended.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Shell that waits for the end of its standard input. The end comes when the
/// process with the other end is gone, even if killed.
pub(super) struct Reaper(Child);

impl Reaper {
    pub(super) fn new(folder: &Path) -> Self {
        let child = Command::new("sh")
            .args(["-c", SWEEP, "reaper"])
            .arg(folder)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("there is a shell"))
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // The shell bounds its own waits.
        let _ = self.0.wait();
    }
}

/// Ends only processes that wrote their id into this folder, and that still run
/// the same program.
const SWEEP: &str = r#"
trap '' INT TERM HUP
cat >/dev/null
for file in "$1"/*.pid "$1"/*/postmaster.pid; do
    pid=$(head -n 1 "$file") || continue
    signal=QUIT
    case $(cat "/proc/$pid/comm") in
    postgres | pgbouncer | pebble | pebble-challtes | knotd | fcgiwrap) ;;
    php-fpm*) signal=TERM ;;
    *) continue ;;
    esac
    kill -CONT "$pid"
    kill -$signal "$pid"
    tries=0
    while kill -0 "$pid"; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || kill -KILL "$pid"
        [ $tries -lt 80 ] || break
        sleep 0.05
    done
done
rm -rf "$1"
"#;
