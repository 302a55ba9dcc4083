//! Which node serves which keys of a cluster.

use redis::Value;

use crate::redis::dial::text;
use crate::redis::url::Node;

/// Ranges of slots with the node that serves them, as one node knew them.
#[derive(Debug)]
pub(super) struct Slots(Vec<Range>);

#[derive(Debug)]
struct Range {
    first: u16,
    last: u16,
    node: Node,
}

impl Slots {
    /// From the answer of `asked` to CLUSTER SLOTS.
    pub(super) fn parse(answer: &Value, asked: &Node) -> Result<Self, String> {
        let items = match answer {
            Value::Array(items) => items,
            Value::ServerError(error) => return Err(format!("{asked}: {}", text(error))),
            _ => return Err(format!("{asked}: the answer holds no slots")),
        };
        let ranges: Option<Vec<_>> = items.iter().map(|item| range(item, asked)).collect();
        match ranges {
            Some(ranges) if ranges.is_empty() => Err(format!("{asked}: no node serves any slot")),
            Some(ranges) => Ok(Self(ranges)),
            None => Err(format!("{asked}: the answer holds no slots")),
        }
    }

    pub(super) fn node_of(&self, slot: u16) -> Option<&Node> {
        let range = |range: &&Range| (range.first..=range.last).contains(&slot);
        self.0.iter().find(range).map(|range| &range.node)
    }

    /// All nodes; one that serves several ranges several times.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.0.iter().map(|range| &range.node)
    }
}

/// First and last slot, the master, its replicas.
fn range(item: &Value, asked: &Node) -> Option<Range> {
    let Value::Array(item) = item else {
        return None;
    };
    let [
        Value::Int(first),
        Value::Int(last),
        Value::Array(master),
        ..,
    ] = &item[..]
    else {
        return None;
    };
    let [host, Value::Int(port), ..] = &master[..] else {
        return None;
    };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        // The node does not know its own address: it is where it was asked.
        Value::Nil => "",
        _ => return None,
    };
    Some(Range {
        first: u16::try_from(*first).ok()?,
        last: u16::try_from(*last).ok()?,
        node: node(host, u16::try_from(*port).ok()?, asked),
    })
}

/// Where a redirection points: `MOVED 3999 10.0.0.1:6379`, behind the code.
pub(super) fn redirected(details: Option<&str>, asked: &Node) -> Option<Node> {
    let (host, port) = details?.split(' ').nth(1)?.rsplit_once(':')?;
    Some(node(host, port.parse().ok()?, asked))
}

fn node(host: &str, port: u16, asked: &Node) -> Node {
    let host = match host {
        "" | "?" => asked.host.as_str(),
        host => host,
    };
    Node {
        host: host.to_owned(),
        port,
    }
}

/// The slot of a key: only what stands between the first brace and the next
/// closing one counts, if that is anything.
pub(super) fn slot_of(key: &str) -> u16 {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag)
        .filter(|tag| !tag.is_empty());
    crc16(tag.unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| match crc >> 15 {
            0 => crc << 1,
            _ => crc << 1 ^ 0x1021,
        })
    })
}

const SLOTS: u16 = 16384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_slots_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, slot) in [("foo", 12182), ("", 0), ("somekey", 11058)] {
            assert_eq!(slot_of(key), slot, "{key}");
        }
        assert_eq!(slot_of("{user1000}.following"), slot_of("user1000"));
        assert_eq!(slot_of("foo{bar}{zap}"), slot_of("bar"));
        assert_eq!(slot_of("foo{{bar}}zap"), slot_of("{bar"));
        assert_eq!(slot_of("foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
    }

    #[test]
    fn a_redirection_names_a_node() {
        let asked = node("10.0.0.9", 7000, &some());
        for (details, wanted) in [
            ("3999 127.0.0.1:6381", "127.0.0.1:6381"),
            ("3999 ::1:6381", "[::1]:6381"),
            ("3999 :6381", "10.0.0.9:6381"),
        ] {
            let node = redirected(Some(details), &asked).unwrap();
            assert_eq!(node.to_string(), wanted);
        }
        for details in [None, Some(""), Some("3999"), Some("3999 h:x"), Some("3 h")] {
            assert_eq!(redirected(details, &asked), None);
        }
    }

    #[test]
    fn an_answer_of_another_form_is_told() {
        let bulk = |text: &str| Value::BulkString(text.into());
        let of = |host| Value::Array(vec![host, Value::Int(7)]);
        let range = |node| Value::Array(vec![Value::Int(0), Value::Int(99), node]);
        let slots = |ranges| Slots::parse(&Value::Array(ranges), &some());
        for (host, wanted) in [
            (bulk("h"), "h:7"),
            (Value::Nil, "asked:1"),
            (bulk(""), "asked:1"),
        ] {
            let known = slots(vec![range(of(host))]).unwrap();
            let wanted = wanted.replace(":1", ":7");
            assert_eq!(known.node_of(99).unwrap().to_string(), wanted);
            assert!(known.node_of(100).is_none());
        }
        for ranges in [
            vec![],
            vec![Value::Nil],
            vec![Value::Array(vec![])],
            vec![range(Value::Nil)],
            vec![range(of(Value::Int(1)))],
            vec![Value::Array(vec![
                Value::Int(-1),
                Value::Int(1),
                of(bulk("h")),
            ])],
        ] {
            assert!(slots(ranges).is_err());
        }
    }

    fn some() -> Node {
        Node {
            host: "asked".into(),
            port: 1,
        }
    }
}
