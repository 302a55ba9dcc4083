//! Code of the process in memory.

use std::fs;
use std::ops::Range;
use std::ptr;

use rustix::mm::{Advice, madvise};

/// Gives the pages of code back that only the start has run: they stay in the page
/// cache, and those that serving needs come back with their first use. Two thirds of
/// the code that is resident after a start are command line, configuration and the
/// opening of the store, and what lies within 64 KB of it.
#[expect(
    unsafe_code,
    reason = "the kernel is asked to take pages of the program back"
)]
pub(crate) fn give_up_code_of_the_start() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let own = give_up_code_of_the_start as fn() as usize;
    let Some(code) = mapping(&maps, own) else {
        return;
    };
    // SAFETY: The pages are those of the program's file, which it never writes to:
    // the kernel reads them again when they are run. The range is one mapping.
    let given = unsafe {
        madvise(
            ptr::with_exposed_provenance_mut(code.start),
            code.len(),
            Advice::LinuxDontNeed,
        )
    };
    if let Err(error) = given {
        tracing::debug!(%error, "the code of the start stays in memory");
    }
}

/// Finds the private mapping of code that holds an address, in the text of proc(5).
fn mapping(maps: &str, address: usize) -> Option<Range<usize>> {
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        let is_code = rest.starts_with("r-xp ") && (start..end).contains(&address);
        is_code.then_some(start..end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_private_code_of_the_program_is_found() {
        let maps = "1000-2000 r--p 0 00:1 1 /bin/a\n2000-4000 r-xp 1000 00:1 1 /bin/a\n\
                    4000-5000 rw-p 0 00:0 0\n5000-6000 r-xs 0 00:1 1 /bin/a\n";
        assert_eq!(mapping(maps, 0x3fff), Some(0x2000..0x4000));
        for elsewhere in [0x1000, 0x4000, 0x5000, 0x7000] {
            assert_eq!(mapping(maps, elsewhere), None);
        }
        assert_eq!(mapping("nonsense\n-\n1-\n", 0), None);
    }

    #[test]
    fn code_runs_on_without_its_pages() {
        give_up_code_of_the_start();
        assert_eq!(mapping("0-2 r-xp 0 00:1 1 /a", 1), Some(0..2));
    }
}
