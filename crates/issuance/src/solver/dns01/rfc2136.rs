//! Dynamic updates (RFC 2136), signed by TSIG.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use hickory_proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::TXT;
use hickory_proto::rr::rdata::tsig::TsigError;
use hickory_proto::rr::{DNSClass, RData, Record, RecordType};
use sekisho_certs::Clock;

use super::error::Fault;
use super::locate::parse;
use super::{Action, Presented, TsigKey};
use sekisho_dns::send;

/// Server that takes updates.
#[derive(Clone, Debug)]
pub struct Rfc2136 {
    /// Address of the zones' primary.
    pub server: SocketAddr,
    /// Key that may change them.
    pub key: TsigKey,
    /// Time in signatures.
    pub clock: Clock,
}

impl Rfc2136 {
    /// Sends an update, once more if there is no answer. It may arrive twice: adding
    /// a record that is there, and removing one that is not, change nothing (RFC
    /// 2136, section 3.4.2).
    pub(super) async fn write(&self, action: Action, presented: &Presented) -> Result<(), Fault> {
        let first = self.send(action, presented).await;
        match first {
            Err(Fault::Unreachable(_)) => self.send(action, presented).await,
            answered => answered,
        }
    }

    async fn send(&self, action: Action, presented: &Presented) -> Result<(), Fault> {
        let now = || u64::try_from(self.clock.now()).unwrap_or(0);
        let signed = self.key.sign(update(action, presented)?, now());
        let (request, mac) = signed.map_err(|error| Fault::Name(error.to_string()))?;
        let answer = send(self.server, &request, TRY).await;
        let (answer, bytes) = answer.map_err(|why| Fault::Unreachable(format!("{self}: {why}")))?;
        let refused = |why: String| {
            let (zone, key) = (&presented.zone, self.key.name());
            Fault::Refused(format!("{self}: zone {zone}, key {key}: {why}"))
        };
        match answer.metadata.response_code {
            ResponseCode::NoError => {
                let verified = self.key.verify(&bytes, &mac, now());
                verified.map_err(refused)
            }
            code => Err(refused(words(code, &answer))),
        }
    }
}

impl fmt::Display for Rfc2136 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rfc2136 {}", self.server)
    }
}

fn update(action: Action, presented: &Presented) -> Result<Message, Fault> {
    let mut zone = Query::query(parse(&presented.zone)?, RecordType::SOA);
    zone.set_query_class(DNSClass::IN);
    let text = RData::TXT(TXT::new(vec![presented.value.clone()]));
    let mut record = Record::from_rdata(parse(&presented.fqdn)?, TTL, text);
    if action == Action::CleanUp {
        // Deletes this record alone (section 2.5.4).
        record.dns_class = DNSClass::NONE;
        record.ttl = 0;
    }
    let mut message = Message::query();
    message.metadata.op_code = OpCode::Update;
    message.add_query(zone);
    message.add_authority(record);
    Ok(message)
}

/// Words a refusal; TSIG has an error code of its own (RFC 8945, section 3).
fn words(code: ResponseCode, answer: &Message) -> String {
    let tsig = answer
        .additionals
        .iter()
        .find_map(|record| match &record.data {
            RData::TSIG(tsig) => tsig.error,
            _ => None,
        });
    let why = match (tsig, code) {
        (Some(TsigError::BadSig), _) => "the secret or the algorithm is wrong (BADSIG)",
        (Some(TsigError::BadKey), _) => "the server knows no such key (BADKEY)",
        (Some(TsigError::BadTime), _) => "a clock is wrong by over five minutes (BADTIME)",
        (_, ResponseCode::NotAuth) => "the server does not serve the zone (NOTAUTH)",
        (_, ResponseCode::Refused) => "the key may not change the zone (REFUSED)",
        _ => return format!("the server refused the update: {code}"),
    };
    why.into()
}

/// Seconds that resolvers keep the record: less than the pause before a second
/// order.
const TTL: u32 = 60;
/// A server that signs its zone may take seconds to change it.
const TRY: Duration = Duration::from_secs(10);
