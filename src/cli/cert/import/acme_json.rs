//! Reads Traefik's `acme.json`, of versions 1 to 3, one certificate at a time: it may have
//! hundreds of megabytes.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use data_encoding::BASE64;
use sekisho_certs::HostPattern;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use zeroize::Zeroizing;

use super::source::{Half, Names, Pair, Pairs, Refusal};

/// Reads the certificates of a file on a thread of its own, since the parser calls back.
pub(super) fn pairs(path: &Path) -> io::Result<Pairs> {
    let (file, path) = (File::open(path)?, path.to_owned());
    let (sender, receiver) = sync_channel(AHEAD);
    let thread = thread::Builder::new().name("acme.json".to_owned());
    thread.spawn(move || read(&path, file, &sender))?;
    Ok(Box::new(receiver.into_iter()))
}

/// Sends the pairs of a file, and what is wrong with it at its end.
fn read(path: &Path, file: impl Read, sender: &SyncSender<Result<Pair, Refusal>>) {
    let left = Rc::new(Cell::new(MAX_VALUE));
    let mut json = serde_json::Deserializer::from_reader(Bounded {
        reader: BufReader::new(file),
        left: Rc::clone(&left),
    });
    let out = Out { path, left, sender };
    let whole = Reader {
        what: What::File,
        out: &out,
    };
    if let Err(error) = whole.deserialize(&mut json).and_then(|()| json.end()) {
        let reason = format!("{UNREADABLE}: {error}");
        // Nobody is left to hear of it if the import has ended.
        let _ = sender.send(Err(Refusal::new(path, UNREADABLE, reason)));
    }
}

/// Receiver of what is read.
struct Out<'a> {
    path: &'a Path,
    /// Bytes that the value being read may still have.
    left: Rc<Cell<usize>>,
    sender: &'a SyncSender<Result<Pair, Refusal>>,
}

/// Reader of one value. A value of a type that none of the versions has is passed over.
#[derive(Clone, Copy)]
struct Reader<'a> {
    what: What,
    out: &'a Out<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// The whole, which holds certificates (version 1) or resolvers.
    File,
    /// A resolver, or the `DomainsCertificate` of version 1.
    Resolver,
    /// A list of certificates.
    Certificates,
}

macro_rules! passed_over {
    ($($visit:ident: $value:ty,)*) => {$(
        fn $visit<E>(self, _: $value) -> Result<(), E> {
            Ok(())
        }
    )*};
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("resolvers with certificates")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let inner = |what| Reader { what, ..self };
        self.out.begin_value();
        while let Some(key) = map.next_key::<String>()? {
            match key.to_ascii_lowercase().as_str() {
                "certificates" | "certs" => map.next_value_seed(inner(What::Certificates))?,
                _ if self.what == What::File => map.next_value_seed(inner(What::Resolver))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            self.out.begin_value();
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.what != What::Certificates {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        self.out.begin_value();
        while let Some(entry) = list.next_element::<Value>()? {
            let sent = self.out.sender.send(pair(self.out.path, entry));
            sent.map_err(|_| A::Error::custom("the import has ended"))?;
            self.out.begin_value();
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    passed_over! {
        visit_bool: bool,
        visit_i64: i64,
        visit_u64: u64,
        visit_f64: f64,
        visit_str: &str,
    }
}

impl Out<'_> {
    fn begin_value(&self) {
        self.left.set(MAX_VALUE);
    }
}

/// Makes the pair of an entry: `domain`, `certificate` and `key`; before version 1.7 `Domains`, and
/// a `Certificate` with both.
fn pair(path: &Path, mut entry: Value) -> Result<Pair, Refusal> {
    let mut domain = match take(&mut entry, "domain") {
        Value::Null => take(&mut entry, "domains"),
        domain => domain,
    };
    let main = take(&mut domain, "main");
    let place = match main.as_str() {
        Some(main) => PathBuf::from(format!("{}: {main}", path.display())),
        None => path.to_owned(),
    };
    let sans = match take(&mut domain, "sans") {
        Value::Array(sans) => sans,
        _ => Vec::new(),
    };
    let named = [main].into_iter().chain(sans);
    let named = named.filter_map(|name| HostPattern::parse(name.as_str()?).ok());
    let names = Names::OfLeaf(named.collect());
    let (chain, key) = match take(&mut entry, "certificate") {
        mut both @ Value::Object(_) => (
            take(&mut both, "certificate"),
            take(&mut both, "privatekey"),
        ),
        chain => (chain, take(&mut entry, "key")),
    };
    let (chain, key) = (half(&place, chain)?, half(&place, key)?);
    Ok(Pair::new(names, chain, key))
}

/// Takes a field out of an object, whatever the case of its name; null if it is not there.
fn take(object: &mut Value, field: &str) -> Value {
    let fields = object.as_object_mut().into_iter().flatten();
    let mut found = fields.filter(|(name, _)| name.eq_ignore_ascii_case(field));
    let found = found.next().map(|(_, value)| value.take());
    found.unwrap_or_default()
}

/// Decodes a half, base64 of PEM.
fn half(place: &Path, text: Value) -> Result<Half, Refusal> {
    let refuse = |reason: &str| Refusal::new(place, "an entry can't be read", reason);
    let Value::String(text) = text else {
        return Err(refuse("has no certificate and key"));
    };
    let text = Zeroizing::new(text);
    let decoded = BASE64.decode(text.as_bytes());
    let bytes = decoded.map_err(|_| refuse("its certificate or key is no base64"))?;
    Ok(Half::Bytes(place.to_owned(), Zeroizing::new(bytes)))
}

/// Reader that fails if one value is too long: the parser keeps a string whole.
struct Bounded<R> {
    reader: R,
    left: Rc<Cell<usize>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 {
            return Err(io::Error::other("an entry is larger than 1 MiB"));
        }
        let most = buffer.len().min(left);
        let read = self.reader.read(&mut buffer[..most])?;
        self.left.set(left - read);
        Ok(read)
    }
}

/// Pairs that are read ahead of their checks, some 10 KB each.
const AHEAD: usize = 64;
/// Bytes of one entry: two halves of 256 KiB in base64, and names.
const MAX_VALUE: usize = 1 << 20;
/// Group of files that end early, or are no JSON.
const UNREADABLE: &str = "the rest of the file can't be read";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::cert::import::source::Key;

    /// Reads a text; shows its pairs and refusals.
    fn shown(text: &str) -> Vec<String> {
        let (sender, receiver) = sync_channel(50_000);
        read(Path::new("acme.json"), text.as_bytes(), &sender);
        drop(sender);
        let shown = receiver.into_iter().map(|read| match read {
            Ok(pair) => {
                let (Half::Bytes(place, chain), Key::Apart(Half::Bytes(_, key))) =
                    (pair.chain, pair.key)
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
            r#"{{"le":{{"Account":{{"Email":"me","PrivateKey":"S"}},"Certificates":[
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
            r#"{{"le":{{"Certificates":[{{}},7,{{"domain":{{"main":"a.example"}},
               "certificate":"-","key":"{KEY}"}},
               {{"certificate":"{CHAIN}","key":"{KEY}"}}]}}}}"#
        );
        assert_eq!(
            shown(&file),
            [
                "acme.json has no certificate and key",
                "acme.json has no certificate and key",
                "acme.json: a.example its certificate or key is no base64",
                "acme.json OfLeaf([]) chain key",
            ]
        );
    }

    #[test]
    fn what_stands_before_the_cut_is_read() {
        let entry = format!(r#"{{"certificate":"{CHAIN}","key":"{KEY}"}}"#);
        let cut = format!(r#"{{"le":{{"Certificates":[{entry},{{"certi"#);
        let read = shown(&cut);
        assert_eq!(read[0], "acme.json OfLeaf([]) chain key");
        let told = "the rest of the file can't be read: EOF";
        assert!(read[1].contains(told), "{read:?}");
        let long = "x".repeat(MAX_VALUE + 1);
        let file = format!(r#"{{"le":{{"Certificates":[{entry},{{"certificate":"{long}"}}]}}}}"#);
        let read = shown(&file);
        assert_eq!(read.len(), 2);
        assert!(read[1].contains("larger than 1 MiB"), "{read:?}");
        // Many entries may have more bytes than one.
        let many = vec![entry; 40_000].join(",");
        assert!(many.len() > MAX_VALUE);
        let read = shown(&format!(r#"{{"Certificates":[{many}]}}"#));
        assert_eq!(read, vec!["acme.json OfLeaf([]) chain key"; 40_000]);
    }
}
