//! Reads Traefik's `acme.json`, of versions 1 to 3, one certificate at a time: it may have
//! hundreds of megabytes.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::iter;
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use sekisho_certs::HostPattern;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::source::{Half, Names, Pair, Pairs, Refusal};
use super::tar::invalid;

/// Lists the certificates of a file.
pub(super) fn pairs(path: &Path) -> io::Result<Pairs> {
    Ok(Box::new(read(path.to_owned(), File::open(path)?)))
}

/// Reads the certificates of a file, and what is wrong with the rest.
pub(super) fn read(path: PathBuf, file: impl Read) -> impl Iterator<Item = Result<Pair, Refusal>> {
    let mut entries = Some(Entries::new(file));
    iter::from_fn(move || match entries.as_mut()?.next_entry().transpose()? {
        Ok(entry) => Some(pair(&path, &entry)),
        Err(error) => {
            entries = None;
            let group = "the rest of the file can't be read";
            Some(Err(Refusal::new(&path, group, error.to_string())))
        }
    })
}

/// Certificate of a file, in the fields of any version.
#[derive(Deserialize)]
struct Entry {
    #[serde(alias = "Domain", alias = "Domains", default)]
    domain: Domain,
    #[serde(alias = "Certificate")]
    certificate: Certificate,
    #[serde(alias = "Key", default)]
    key: String,
}

#[derive(Default, Deserialize)]
struct Domain {
    #[serde(alias = "Main", default)]
    main: String,
    #[serde(alias = "SANs", default)]
    sans: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Certificate {
    Chain(String),
    /// Before version 1.7.
    Both {
        #[serde(rename = "Certificate")]
        chain: String,
        #[serde(rename = "PrivateKey")]
        key: String,
    },
}

/// Makes the pair of an entry.
fn pair(path: &Path, entry: &[u8]) -> Result<Pair, Refusal> {
    let refuse = |place: &Path, why: &str| Refusal::new(place, "an entry can't be read", why);
    // The error's own text repeats what stands there, which may be a key.
    let entry: Entry = serde_json::from_slice(entry).map_err(|_| refuse(path, NO_ENTRY))?;
    let (chain, key) = match entry.certificate {
        Certificate::Chain(chain) => (chain, entry.key),
        Certificate::Both { chain, key } => (chain, key),
    };
    let Domain { main, sans } = entry.domain;
    let place = match main.is_empty() {
        true => path.to_owned(),
        false => PathBuf::from(format!("{}: {main}", path.display())),
    };
    let half = |text: String| match BASE64.decode(Zeroizing::new(text).as_bytes()) {
        Ok(bytes) => Ok(Half::Bytes(place.clone(), Zeroizing::new(bytes))),
        Err(_) => Err(refuse(&place, "a half is no base64")),
    };
    // The key comes first: it is wiped, whatever the chain is.
    let (key, chain) = (half(key)?, half(chain)?);
    let named = iter::once(main).chain(sans.unwrap_or_default());
    let named = named.filter_map(|name| HostPattern::parse(&name).ok());
    Ok(Pair::new(Names::OfLeaf(named.collect()), chain, Some(key)))
}

/// Entries of a file's lists of certificates. What stands around them is passed over.
struct Entries<R> {
    bytes: io::Bytes<BufReader<R>>,
    /// Number of open objects and lists.
    depth: usize,
    /// Depth of the list of certificates that is open; 0 for none.
    list: usize,
    /// Last text, which may be a list's name. More than its first bytes do not count.
    text: Vec<u8>,
}

impl<R: Read> Entries<R> {
    fn new(file: R) -> Self {
        Self {
            bytes: BufReader::new(file).bytes(),
            depth: 0,
            list: 0,
            text: Vec::new(),
        }
    }

    /// Reads the bytes of the next entry; none at the end.
    ///
    /// # Errors
    /// If the file ends early, or an entry has more bytes than its halves may have.
    fn next_entry(&mut self) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        // Most entries fit: growing leaves copies of a key.
        let mut entry = Zeroizing::new(Vec::with_capacity(USUAL_ENTRY));
        let (mut is_text, mut is_escaped) = (false, false);
        while let Some(byte) = self.bytes.next() {
            let byte = byte?;
            if self.list > 0 && (self.depth > self.list || byte == b'{' && !is_text) {
                entry.push(byte);
            } else if is_text && self.text.len() < MAX_TEXT {
                self.text.push(byte);
            }
            if entry.len() > MAX_ENTRY {
                return Err(invalid("an entry has more than 1 MiB"));
            }
            match byte {
                b'"' if !is_escaped => {
                    is_text = !is_text;
                    if is_text {
                        self.text.clear();
                    }
                }
                b'{' | b'[' if !is_text => {
                    self.depth += 1;
                    if byte == b'[' && self.list == 0 && self.begins_list() {
                        self.list = self.depth;
                    }
                }
                b'}' | b']' if !is_text => {
                    let closed = self.depth.checked_sub(1);
                    self.depth = closed.ok_or_else(|| invalid("is no JSON"))?;
                    if self.depth < self.list {
                        self.list = 0;
                    } else if self.list > 0 && self.depth == self.list {
                        return Ok(Some(entry));
                    }
                }
                _ => {}
            }
            is_escaped = is_text && byte == b'\\' && !is_escaped;
        }
        match self.depth {
            0 => Ok(None),
            _ => Err(invalid("the file ends in the middle")),
        }
    }

    /// Returns whether the last text is the name of a list of certificates.
    fn begins_list(&self) -> bool {
        let text = self.text.to_ascii_lowercase();
        text == b"certificates\"" || text == b"certs\""
    }
}

const NO_ENTRY: &str = "is no entry with a certificate and its key";
/// Bytes of most entries: two halves in base64, and names.
const USUAL_ENTRY: usize = 16 * 1024;
/// Bytes of one entry: two halves of 256 KiB in base64, and names.
const MAX_ENTRY: usize = 1 << 20;
/// Bytes of a text that are kept: more than those of a list's name.
const MAX_TEXT: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a text; shows its pairs and refusals.
    fn shown(text: &str) -> Vec<String> {
        let read = read("acme.json".into(), text.as_bytes());
        let shown = read.map(|read| match read {
            Ok(pair) => {
                let (Half::Bytes(place, chain), Some(Half::Bytes(_, key))) = (pair.chain, pair.key)
                else {
                    panic!("no bytes");
                };
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let (place, names) = (place.display(), pair.names);
                format!("{place} {names:?} {} {}", text(&chain), text(&key))
            }
            Err(refused) => format!("{} {}", refused.place.display(), refused.reason),
        });
        shown.collect()
    }

    // "chain" and "key" in base64.
    const CHAIN: &str = "Y2hhaW4=";
    const KEY: &str = "a2V5";

    #[test]
    fn all_versions_are_read() {
        let resolvers = format!(
            r#"{{"le":{{"Account":{{"Email":"\"[","PrivateKey":"\\"}},"Certificates":[
                {{"domain":{{"main":"a.example","sans":["*.a.example"]}},
                 "certificate":"{CHAIN}","key":"{KEY}","Store":"default"}},
                {{"domain":{{"main":"b.example"}},"certificate":"{CHAIN}","key":"{KEY}"}}]}},
               "empty":{{"Account":null,"Certificates":null}},"strange":[1,{{"x":[]}}],"n":-1.5}}"#
        );
        let first = "acme.json: a.example OfLeaf([\"a.example\", \"*.a.example\"]) chain key";
        let second = "acme.json: b.example OfLeaf([\"b.example\"]) chain key";
        assert_eq!(shown(&resolvers), [first, second]);
        let one = format!(
            r#"{{"Account":{{}},"HTTPChallenges":{{"x":null}},"Certificates":[{{"Domain":
               {{"Main":"a.example","SANs":["*.a.example"]}},
               "Certificate":"{CHAIN}","Key":"{KEY}"}}]}}"#
        );
        assert_eq!(shown(&one), [first]);
        let before = format!(
            r#"{{"DomainsCertificate":{{"Certs":[{{"Domains":{{"Main":"b.example","SANs":null}},
               "Certificate":{{"Domain":"b.example","CertURL":"","PrivateKey":"{KEY}",
               "Certificate":"{CHAIN}"}}}}]}}}}"#
        );
        assert_eq!(shown(&before), [second]);
    }

    #[test]
    fn bad_entries_are_refused_alone() {
        let file = format!(
            r#"{{"le":{{"Certificates":[{{}},7,"{{",{{"domain":{{"main":"a.example"}},
               "certificate":"-","key":"{KEY}"}},
               {{"certificate":"{CHAIN}","key":"{KEY}"}}]}}}}"#
        );
        let read = shown(&file);
        assert_eq!(read.len(), 3, "{read:?}");
        assert_eq!(read[0], format!("acme.json {NO_ENTRY}"));
        assert_eq!(read[1], "acme.json: a.example a half is no base64");
        assert_eq!(read[2], "acme.json OfLeaf([]) chain key");
    }

    #[test]
    fn what_stands_before_the_cut_is_read() {
        let entry = format!(r#"{{"certificate":"{CHAIN}","key":"{KEY}"}}"#);
        let whole = format!(r#"{{"le":{{"Certificates":[{entry},{entry}]}}}}"#);
        assert_eq!(shown(&whole).len(), 2);
        let cut = "acme.json the file ends in the middle";
        for length in 1..whole.len() {
            let read = shown(&whole[..length]);
            assert_eq!(read.last().map(String::as_str), Some(cut), "{length}");
            assert!(read.len() <= 3, "{length}");
        }
        assert_eq!(shown("}"), ["acme.json is no JSON"]);
        let long = "x".repeat(MAX_ENTRY);
        let file = format!(r#"{{"le":{{"Certificates":[{entry},{{"certificate":"{long}"}}]}}}}"#);
        let read = shown(&file);
        assert_eq!(read.len(), 2);
        assert!(read[1].contains("more than 1 MiB"), "{read:?}");
        // Many entries may have more bytes than one.
        let many = vec![entry; 40_000].join(",");
        assert!(many.len() > MAX_ENTRY);
        let read = shown(&format!(r#"{{"Certificates":[{many}]}}"#));
        assert_eq!(read, vec!["acme.json OfLeaf([]) chain key"; 40_000]);
    }
}
