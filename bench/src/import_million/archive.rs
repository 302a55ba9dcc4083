//! Archive of pairs, as `tar -ch --hard-dereference --sort=name` makes it of a folder with
//! `NAME.crt` and `NAME.key`. It is written without that folder: two million files take longer.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Result, anyhow};
use rcgen::KeyPair;

use crate::fixtures::{Authority, Folder};

/// Makes the archive of so many pairs for `PREFIX{number}.example.test` in this folder, unless
/// it is there.
pub(super) fn make(folder: &Path, prefix: &str, count: usize) -> Result<PathBuf> {
    let archive = folder.join(format!("{prefix}-{count}.tar"));
    if archive.exists() {
        return Ok(archive);
    }
    let authorities = authorities(folder, count)?;
    let begun = archive.with_extension("begun");
    let mut file = BufWriter::new(File::create(&begun)?);
    for first in (0..count).step_by(BATCH) {
        let numbers = first..count.min(first + BATCH);
        let pairs = on_all_cores(numbers, |number| {
            let authority = &authorities[number % authorities.len()];
            pair(&host(prefix, number), authority)
        })?;
        for entries in pairs {
            file.write_all(&entries)?;
        }
        if (first + BATCH).is_multiple_of(REPORT_EVERY) {
            eprintln!("{} of {count} pairs made", first + BATCH);
        }
    }
    // Two blocks of zeros end an archive.
    file.write_all(&[0; 2 * BLOCK])?;
    file.flush()?;
    fs::rename(begun, &archive)?;
    Ok(archive)
}

/// Returns the name of a host. Names are in the order of their numbers.
pub(super) fn host(prefix: &str, number: usize) -> String {
    format!("{prefix}{number:07}.example.test")
}

/// Makes CAs, or loads those that are there: one for each thousand of pairs, and 50 at most.
fn authorities(folder: &Path, count: usize) -> Result<Vec<Authority>> {
    let count = (count / 1000).clamp(1, MAX_AUTHORITIES);
    let made = on_all_cores(0..count, |number| {
        let folder = folder.join(format!("ca-{number}"));
        fs::create_dir_all(&folder)?;
        Ok(vec![Authority::load_or_create(Folder(&folder))?])
    })?;
    Ok(made.into_iter().flatten().collect())
}

/// Calls `work` with each number on all cores. Returns what each core made, in order.
fn on_all_cores<T: Send>(
    numbers: Range<usize>,
    work: impl Fn(usize) -> Result<Vec<T>> + Sync,
) -> Result<Vec<Vec<T>>> {
    let cores = thread::available_parallelism()?.get();
    let each = numbers.len().div_ceil(cores).max(1);
    let (work, end) = (&work, numbers.end);
    thread::scope(|scope| {
        let parts = numbers.step_by(each).map(|first| {
            let numbers = first..end.min(first + each);
            scope.spawn(move || numbers.map(work).collect::<Result<Vec<_>>>())
        });
        // All are started before one is waited for.
        let threads: Vec<_> = parts.collect();
        let results = threads.into_iter().map(|thread| {
            let part = thread.join().map_err(|_| anyhow!("a thread panicked"))??;
            anyhow::Ok(part.into_iter().flatten().collect::<Vec<T>>())
        });
        results.collect()
    })
}

/// Issues another certificate for a host, with another key.
pub(super) fn renewed(folder: &Path, name: &str) -> Result<(String, String)> {
    let authority = folder.join("ca-0");
    let (authority, key) = (
        Authority::load_or_create(Folder(&authority))?,
        KeyPair::generate()?,
    );
    Ok((authority.chain(name, &key)?, key.serialize_pem()))
}

/// Makes the entries of a pair.
fn pair(name: &str, authority: &Authority) -> Result<Vec<u8>> {
    let key = KeyPair::generate()?;
    let chain = authority.chain(name, &key)?;
    let mut entries = Vec::new();
    add(&mut entries, &format!("{name}.crt"), chain.as_bytes());
    let key = key.serialize_pem();
    add(&mut entries, &format!("{name}.key"), key.as_bytes());
    Ok(entries)
}

/// Adds a file: header and content, in whole blocks (POSIX.1-2017, pax, "ustar Interchange
/// Format").
fn add(archive: &mut Vec<u8>, name: &str, content: &[u8]) {
    let mut header = [0; BLOCK];
    let length = format!("{:011o}\0", content.len());
    for (at, field) in [
        (0, name),
        (100, "0000600\0"),
        (108, "0000000\0"),
        (116, "0000000\0"),
        (124, length.as_str()),
        (136, "00000000000\0"),
        // The sum counts its own field as spaces.
        (SUM, "        "),
        (156, "0"),
        (257, "ustar\x0000"),
    ] {
        header[at..at + field.len()].copy_from_slice(field.as_bytes());
    }
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    let sum = format!("{sum:06o}\0 ");
    header[SUM..SUM + sum.len()].copy_from_slice(sum.as_bytes());
    archive.extend(header);
    archive.extend(content);
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
}

/// Beginning of the names of the pairs that are measured.
pub(super) const PAIRS: &str = "h";
/// Bytes of a block of an archive.
const BLOCK: usize = 512;
/// Place of the sum of a header's bytes.
const SUM: usize = 148;
/// Pairs that are in memory at once.
const BATCH: usize = 10_000;
const REPORT_EVERY: usize = 100_000;
/// CAs with an intermediate of their own: public ones have some dozens.
const MAX_AUTHORITIES: usize = 50;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn tar_reads_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        let archive = make(folder.path(), "h", 3).unwrap();
        let listed = Command::new("tar").arg("-tf").arg(&archive).output();
        let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
        let names: Vec<_> = listed.lines().collect();
        assert_eq!(names.len(), 6);
        assert_eq!(names[0], "h0000000.example.test.crt");
        assert_eq!(names[5], "h0000002.example.test.key");
        let unpacked = Command::new("tar").arg("-xOf").arg(&archive).output();
        let unpacked = String::from_utf8(unpacked.unwrap().stdout).unwrap();
        assert_eq!(unpacked.matches("BEGIN CERTIFICATE").count(), 6);
        assert_eq!(unpacked.matches("BEGIN PRIVATE KEY").count(), 3);
        // The second time it is there.
        let written = fs::metadata(&archive).unwrap().modified().unwrap();
        make(folder.path(), "h", 3).unwrap();
        assert_eq!(fs::metadata(&archive).unwrap().modified().unwrap(), written);
    }
}
