//! Argon2id (RFC 9106), in the PHC string format.

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use data_encoding::BASE64_NOPAD;

use super::{malformed, refused};
use crate::site::error::Checked;
use crate::site::value::number;

/// Parameters, salt and tag.
pub(super) struct Argon2id {
    params: Params,
    salt: Vec<u8>,
    tag: Vec<u8>,
}

impl Argon2id {
    /// Reads `v=19$m=M,t=T,p=P$SALT$TAG`. The crate's own parser bounds the memory by
    /// 4 TiB alone.
    pub(super) fn parse(text: &str) -> Checked<Self> {
        let parts: Vec<&str> = text.split('$').collect();
        let [version, costs, salt, tag] = parts[..] else {
            return Err(malformed());
        };
        if version != "v=19" {
            return Err(refused("of argon2id only version 19 is taken"));
        }
        let [memory, passes, lanes] = costs_of(costs).ok_or_else(malformed)?;
        let is_cheap = (1..=MAX_LANES).contains(&lanes)
            && (8 * lanes..=MAX_MEMORY).contains(&memory)
            && (1..=MAX_PASSES).contains(&passes);
        if !is_cheap {
            return Err(refused(&format!(
                "a cost of argon2id is out of range: m up to {MAX_MEMORY}, t up to {MAX_PASSES}, \
                 p up to {MAX_LANES}"
            )));
        }
        let [salt, tag] = [(salt, 8..=64), (tag, 16..=64)].map(|(text, lengths)| {
            let bytes = BASE64_NOPAD.decode(text.as_bytes()).ok();
            bytes.filter(|bytes: &Vec<u8>| lengths.contains(&bytes.len()))
        });
        let params = Params::new(memory, passes, lanes, None).map_err(|_| malformed())?;
        Ok(Self {
            params,
            salt: salt.ok_or_else(malformed)?,
            tag: tag.ok_or_else(malformed)?,
        })
    }

    pub(super) fn verify(&self, password: &[u8]) -> bool {
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, self.params.clone());
        let mut found = vec![0; self.tag.len()];
        let computed = argon2.hash_password_into(password, &self.salt, &mut found);
        computed.is_ok() && verify_slices_are_equal(&found, &self.tag).is_ok()
    }
}

/// Reads `m=M,t=T,p=P`.
fn costs_of(text: &str) -> Option<[u32; 3]> {
    let mut costs = text.split(',');
    let mut cost = |key: &str| costs.next()?.strip_prefix(key).and_then(number);
    let found = [cost("m=")?, cost("t=")?, cost("p=")?];
    costs.next().is_none().then_some(found)
}

/// KiB of one computation: 64 MiB.
pub(super) const MAX_MEMORY: u32 = 64 << 10;
const MAX_PASSES: u32 = 4;
const MAX_LANES: u32 = 4;
