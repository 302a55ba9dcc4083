//! Base64 (RFC 4648) of keys and certificates: without branches or tables that
//! depend on the characters, many of them at once, and with nothing left behind.

use zeroize::Zeroizing;

/// Decodes across lines.
#[derive(Default)]
pub(super) struct Base64 {
    bits: u32,
    count: u32,
    padded: bool,
    /// Values of the characters of a piece.
    values: Zeroizing<[u8; PIECE]>,
}

impl Base64 {
    /// Appends what this line stands for, as far as its bytes are complete.
    pub(super) fn decode(&mut self, line: &[u8], into: &mut Vec<u8>) -> Result<(), &'static str> {
        let whole = match self.count == 0 && !self.padded {
            true => self.whole(line, into),
            false => 0,
        };
        for &character in &line[whole..] {
            if character == b'=' {
                self.padded = true;
                continue;
            }
            let (value, is_known) = value(character);
            if is_known == 0 {
                return Err("what is no Base64");
            }
            if self.padded {
                return Err("Base64 behind its end");
            }
            self.bits = self.bits << 6 | u32::from(value);
            self.count += 6;
            if self.count >= 8 {
                self.count -= 8;
                into.push((self.bits >> self.count & 0xff) as u8);
            }
        }
        Ok(())
    }

    /// Decodes pieces of a line up to the first that holds something else than
    /// the alphabet or is too short; gives how many characters these had.
    fn whole(&mut self, line: &[u8], into: &mut Vec<u8>) -> usize {
        let mut done = 0;
        for piece in line.as_chunks().0 {
            if !all_known(piece, &mut self.values) {
                break;
            }
            let begin = into.len();
            into.resize(begin + PIECE / 4 * 3, 0);
            let groups = self.values.as_chunks::<4>().0;
            for (bytes, group) in into[begin..].chunks_exact_mut(3).zip(groups) {
                bytes[0] = group[0] << 2 | group[1] >> 4;
                bytes[1] = group[1] << 4 | group[2] >> 2;
                bytes[2] = group[2] << 6 | group[3];
            }
            done += PIECE;
        }
        done
    }
}

/// Tells whether all of these are of the alphabet; leaves what they stand for. The
/// lengths are fixed so that the compiler takes many characters at once.
fn all_known(piece: &[u8; PIECE], values: &mut [u8; PIECE]) -> bool {
    let mut known = [0; PIECE];
    for at in 0..PIECE {
        (values[at], known[at]) = value(piece[at]);
    }
    known == [0xff; PIECE]
}

/// Returns six bits, and a mask: all ones for a character of the alphabet, else
/// 0.
#[inline(always)]
fn value(character: u8) -> (u8, u8) {
    let within =
        |first: u8, count: u8| 0_u8.wrapping_sub(u8::from(character.wrapping_sub(first) < count));
    let (upper, lower, digit) = (within(b'A', 26), within(b'a', 26), within(b'0', 10));
    let (plus, slash) = (within(b'+', 1), within(b'/', 1));
    let value = upper & character.wrapping_sub(b'A')
        | lower & character.wrapping_sub(b'a').wrapping_add(26)
        | digit & character.wrapping_sub(b'0').wrapping_add(52)
        | plus & 62
        | slash & 63;
    (value, upper | lower | digit | plus | slash)
}

/// Half of a line as it is usually written.
const PIECE: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    fn encode(bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        for group in bytes.chunks(3) {
            let at = |index| u32::from(group.get(index).copied().unwrap_or(0));
            let bits = at(0) << 16 | at(1) << 8 | at(2);
            for place in 0..4 {
                let value = (bits >> (18 - 6 * place) & 63) as usize;
                text.push(match place <= group.len() {
                    true => ALPHABET[value],
                    false => b'=',
                });
            }
        }
        text
    }

    fn decode(lines: &[&[u8]]) -> Result<Vec<u8>, &'static str> {
        let (mut base64, mut into) = (Base64::default(), Vec::new());
        lines
            .iter()
            .try_for_each(|line| base64.decode(line, &mut into))?;
        Ok(into)
    }

    #[test]
    fn bytes_of_any_number_come_back_from_lines_of_any_length() {
        let bytes: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        for count in (0..70).chain([511, 512]) {
            let text = encode(&bytes[..count]);
            for length in [1, 3, 4, 63, 64, 65, 100, 1000] {
                let lines: Vec<&[u8]> = text.chunks(length).collect();
                assert_eq!(decode(&lines).unwrap(), bytes[..count], "{count}, {length}");
            }
        }
    }

    #[test]
    fn only_the_alphabet_is_taken() {
        for other in 0..=255_u8 {
            let is_known = ALPHABET.iter().position(|&known| known == other);
            for place in [0, 5, 63, 64, 67] {
                let mut line = [b'A'; 68];
                line[place] = other;
                let decoded = decode(&[&line]);
                match (is_known, other) {
                    (Some(_), _) => assert_eq!(decoded.unwrap().len(), 51),
                    (None, b'=') if place == 67 => assert_eq!(decoded.unwrap().len(), 50),
                    (None, b'=') => assert_eq!(decoded, Err("Base64 behind its end")),
                    (None, _) => assert_eq!(decoded, Err("what is no Base64")),
                }
            }
        }
        assert_eq!(decode(&[b"AA==", b"AAAA"]), Err("Base64 behind its end"));
    }
}
