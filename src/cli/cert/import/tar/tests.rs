use super::*;

/// Makes a header of ustar, with its checksum.
fn header(name: &str, kind: u8, size: u64) -> Vec<u8> {
    let mut header = vec![0; BLOCK];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    header[TYPE] = kind;
    header[257..263].copy_from_slice(b"ustar\0");
    seal(&mut header);
    header
}

fn seal(header: &mut [u8]) {
    header[CHECKSUM].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

/// Makes an entry with its content, in whole blocks.
pub(in crate::cli::cert::import) fn entry(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut entry = header(name, kind, content.len() as u64);
    entry.extend_from_slice(content);
    entry.resize(entry.len().next_multiple_of(BLOCK), 0);
    entry
}

/// Makes an archive of entries, with its end.
pub(in crate::cli::cert::import) fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut archive = entries.concat();
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

/// Reads an archive to its end; returns names with contents, and the error.
fn read(archive: &[u8]) -> (Vec<(String, String)>, Option<String>) {
    let mut tar = Tar(archive);
    let mut files = Vec::new();
    loop {
        match tar.next_file() {
            Ok(Some(entry)) => {
                let content = match entry.content {
                    Content::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                    Content::TooLarge => "too large".to_owned(),
                    Content::LeadsOut => "leads out".to_owned(),
                    Content::Link => "link".to_owned(),
                };
                files.push((entry.name.display().to_string(), content));
            }
            Ok(None) => return (files, None),
            Err(error) => return (files, Some(error.to_string())),
        }
    }
}

fn file(name: &str, content: &str) -> (String, String) {
    (name.to_owned(), content.to_owned())
}

#[test]
fn files_are_read_in_their_order() {
    let long = format!("{}/a.crt", "x".repeat(200));
    let pax = |key: &str, value: &str| {
        let record = format!(" {key}={value}\n");
        let length = record.len() + 3;
        format!("{length:03}{record}")
    };
    let mut split = header("a.crt", b'0', 0);
    split[345..350].copy_from_slice(b"certs");
    seal(&mut split);
    let archive = archive(&[
        entry("./", b'5', b""),
        entry("./a.crt", b'0', b"one"),
        entry("b.crt", 0, &[b'x'; 513]),
        entry("././@LongLink", b'L', format!("{long}\0").as_bytes()),
        entry("cut", b'0', b"two"),
        entry("pax", b'x', pax("path", "p/a.crt").as_bytes()),
        entry("cut", b'0', b"three"),
        entry("global", b'g', pax("path", "wrong").as_bytes()),
        split,
    ]);
    let wanted = [
        file("./a.crt", "one"),
        file("b.crt", &"x".repeat(513)),
        file(&long, "two"),
        file("p/a.crt", "three"),
        file("certs/a.crt", ""),
    ];
    assert_eq!(read(&archive), (wanted.to_vec(), None));
}

#[test]
fn names_that_lead_out_and_links_are_not_read() {
    let archive = archive(&[
        entry("../a.crt", b'0', b"one"),
        entry("/etc/a.crt", b'0', b"two"),
        entry("a/../../b.crt", b'0', b"three"),
        entry("link.crt", b'2', b""),
        entry("hard.crt", b'1', b""),
        entry("a.crt", b'0', b"four"),
    ]);
    let (files, error) = read(&archive);
    assert_eq!(error, None);
    let contents: Vec<_> = files.iter().map(|(_, content)| content.as_str()).collect();
    let wanted = [
        "leads out",
        "leads out",
        "leads out",
        "link",
        "link",
        "four",
    ];
    assert_eq!(contents, wanted);
}

#[test]
fn an_early_end_is_told_wherever_it_is() {
    let whole = archive(&[
        entry("pax", b'x', b"16 path=p/a.crt\n"),
        entry("a.crt", b'0', &[b'x'; 700]),
        entry("b.crt", b'0', b"y"),
    ]);
    assert_eq!(read(&whole).0.len(), 2);
    for length in 0..whole.len() {
        let (files, error) = read(&whole[..length]);
        let told = "the archive ends in the middle";
        assert_eq!(error.as_deref(), Some(told), "{length}");
        assert!(files.len() <= 2);
    }
}

#[test]
fn sizes_are_bounded() {
    // A terabyte is skipped as it comes, never kept.
    let huge = header("a.crt", b'0', 1 << 32);
    let told = Some("the archive ends in the middle".to_owned());
    assert_eq!(read(&huge), (Vec::new(), told));
    let large = vec![b'x'; MAX_FILE + 1];
    let entries = [entry("a.crt", b'0', &large), entry("b.crt", b'0', b"y")];
    let wanted = vec![file("a.crt", "too large"), file("b.crt", "y")];
    assert_eq!(read(&archive(&entries)), (wanted, None));
    let name = vec![b'x'; MAX_NAME + 1];
    let (_, error) = read(&archive(&[entry("name", b'L', &name)]));
    assert!(error.unwrap().contains("too long"));
    // A number of 12 bytes that no archive can have.
    let mut binary = header("a.crt", b'0', 0);
    binary[124..136].fill(0xff);
    seal(&mut binary);
    assert!(
        read(&archive(&[binary]))
            .1
            .unwrap()
            .contains("wrong number")
    );
}

#[test]
fn what_is_no_archive_is_told() {
    let (_, error) = read(&[b'x'; 4 * BLOCK]);
    assert!(error.unwrap().contains("wrong number"));
    let mut spoilt = entry("a.crt", b'0', b"one");
    spoilt[0] = b'b';
    let (_, error) = read(&archive(&[spoilt]));
    assert_eq!(error.as_deref(), Some("a header has a wrong checksum"));
    // Zeros without an end are an empty archive.
    let zeros = io::repeat(0);
    assert!(Tar(zeros).next_file().unwrap().is_none());
}
