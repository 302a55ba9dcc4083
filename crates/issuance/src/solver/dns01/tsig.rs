//! Signatures of DNS messages by a shared secret (TSIG, RFC 8945).

use std::fmt;

use aws_lc_rs::hmac;
use data_encoding::BASE64;
use hickory_proto::ProtoError;
use hickory_proto::op::{Header, Message};
use hickory_proto::rr::rdata::TSIG;
use hickory_proto::rr::rdata::tsig::{TsigAlgorithm, make_tsig_record, message_tbs};
use hickory_proto::rr::{Name, RData, Record};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, BinEncoder};
use zeroize::Zeroizing;

/// Key with its name, which the server knows too.
#[derive(Clone)]
pub struct TsigKey {
    name: Name,
    algorithm: TsigAlgorithm,
    key: hmac::Key,
}

impl TsigKey {
    /// Parses `[hmac-sha256:]NAME:SECRET`, as `nsupdate -y` and `kdig -y` take it:
    /// the secret in base64; `hmac-sha384` and `hmac-sha512` are the other
    /// algorithms.
    ///
    /// # Errors
    /// Says what is wrong, without the text, which holds the secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (rest, secret) = text.rsplit_once(':').ok_or(FORM)?;
        let (algorithm, name) = rest.split_once(':').unwrap_or(("hmac-sha256", rest));
        let (algorithm, hmac) = match algorithm.to_ascii_lowercase().as_str() {
            "hmac-sha256" => (TsigAlgorithm::HmacSha256, hmac::HMAC_SHA256),
            "hmac-sha384" => (TsigAlgorithm::HmacSha384, hmac::HMAC_SHA384),
            "hmac-sha512" => (TsigAlgorithm::HmacSha512, hmac::HMAC_SHA512),
            _ => return Err("the algorithm is none of hmac-sha256, -sha384, -sha512".into()),
        };
        let mut name = Name::from_ascii(name).map_err(|_| "the key's name is no DNS name")?;
        name.set_fqdn(true);
        let secret = BASE64.decode(secret.as_bytes()).map(Zeroizing::new);
        let secret = secret.map_err(|_| "the secret is no base64")?;
        if name.is_root() || secret.is_empty() {
            return Err(FORM.into());
        }
        Ok(Self {
            name: name.to_lowercase(),
            algorithm,
            key: hmac::Key::new(hmac, &secret),
        })
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.to_ascii()
    }

    /// Returns a message with its signature, and the signature: that of the answer
    /// covers it. `now` is in seconds since the Unix epoch.
    pub(super) fn sign(
        &self,
        mut message: Message,
        now: u64,
    ) -> Result<(Message, Vec<u8>), ProtoError> {
        let id = message.metadata.id;
        let algorithm = self.algorithm.clone();
        let tsig = TSIG::new(algorithm, now, FUDGE, Vec::new(), id, None, Vec::new());
        let signed = message_tbs(&message, &tsig, &self.name)?;
        let mac = hmac::sign(&self.key, &signed).as_ref().to_vec();
        let record = make_tsig_record(self.name.clone(), tsig.set_mac(mac.clone()));
        message.signature = Some(Box::new(record));
        Ok((message, mac))
    }

    /// Verifies an answer to the message with this signature (section 5.3).
    pub(super) fn verify(&self, answer: &[u8], request_mac: &[u8], now: u64) -> Result<(), String> {
        let signed = self.signed(answer, request_mac);
        let signed = signed.map_err(|error| error.to_string())?;
        let (signed, tsig) = signed.ok_or(UNSIGNED)?;
        hmac::verify(&self.key, &signed, &tsig.mac)
            .map_err(|_| "the answer's signature is wrong".to_owned())?;
        match tsig.time.abs_diff(now) <= u64::from(FUDGE) {
            true => Ok(()),
            false => Err("the answer is old: a clock is wrong".into()),
        }
    }

    /// Builds what an answer's signature covers (sections 4.3.1 to 4.3.3): the request's
    /// signature, and the answer as it was before it was signed. Returns the signature, its
    /// last additional record, too; none if there is none of this key.
    fn signed(
        &self,
        answer: &[u8],
        request_mac: &[u8],
    ) -> Result<Option<(Vec<u8>, TSIG)>, ProtoError> {
        let mut decoder = BinDecoder::new(answer);
        let header = Header::read(&mut decoder)?;
        let (counts, code) = (header.counts, header.metadata.op_code);
        let Some(additionals) = counts.additionals.checked_sub(1) else {
            return Ok(None);
        };
        let begin = decoder.index();
        Message::read_queries(&mut decoder, counts.queries.into())?;
        let records = usize::from(counts.answers) + usize::from(counts.authorities);
        Message::read_records(&mut decoder, records, false, code)?;
        Message::read_records(&mut decoder, additionals.into(), true, code)?;
        let end = decoder.index();
        let last = Record::read(&mut decoder)?;
        let RData::TSIG(tsig) = last.data else {
            return Ok(None);
        };
        if last.name != self.name {
            return Ok(None);
        }
        let mut signed = Vec::new();
        let mut encoder = BinEncoder::new(&mut signed);
        encoder.emit_u16(u16::try_from(request_mac.len()).unwrap_or(u16::MAX))?;
        encoder.emit_vec(request_mac)?;
        encoder.emit_u16(tsig.oid)?;
        // Flags and the counts before that of additional records stay as they are.
        encoder.emit_vec(&answer[2..begin - 2])?;
        encoder.emit_u16(additionals)?;
        encoder.emit_vec(&answer[begin..end])?;
        tsig.emit_tsig_for_mac(&mut encoder, &self.name)?;
        Ok(Some((signed, tsig)))
    }
}

impl fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TsigKey({})", self.name)
    }
}

/// Seconds by which two clocks may differ (RFC 8945, section 10).
const FUDGE: u16 = 300;
const FORM: &str = "a TSIG key has the form [hmac-sha256:]NAME:SECRET, the secret in base64";
const UNSIGNED: &str = "the answer is not signed with the key";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_parsed_and_never_shown() {
        let key = TsigKey::parse("hmac-sha512:Acme.Example:c2VjcmV0\n").unwrap();
        assert_eq!(format!("{key:?}"), "TsigKey(acme.example.)");
        assert_eq!(key.algorithm, TsigAlgorithm::HmacSha512);
        let key = TsigKey::parse("acme:c2VjcmV0").unwrap();
        assert_eq!(
            (key.name().as_str(), key.algorithm),
            ("acme.", TsigAlgorithm::HmacSha256)
        );
        for (text, wanted) in [
            ("", "has the form"),
            ("c2VjcmV0", "has the form"),
            (":c2VjcmV0", "has the form"),
            ("acme:", "has the form"),
            ("acme:c2VjcmV", "no base64"),
            ("hmac-md5:acme:c2VjcmV0", "algorithm"),
            ("a..b:c2VjcmV0", "no DNS name"),
        ] {
            let error = TsigKey::parse(text).unwrap_err();
            assert!(
                error.contains(wanted) && !error.contains("c2VjcmV"),
                "{text}: {error}"
            );
        }
    }
}
