//! Entry point of the fuzz target.

use bytes::BytesMut;

use super::record::{Parser, Piece};
use crate::upstream::conversation::head::Head;

/// Reads an answer whose bytes come in pieces of so many, for the fuzz target. Returns the
/// status and the fields of its head with the body and standard error, or what is wrong.
pub fn fastcgi_answer(
    bytes: &[u8],
    cut: usize,
) -> Result<(Option<String>, Vec<u8>, Vec<u8>), String> {
    let (mut parser, mut received) = (Parser::default(), BytesMut::new());
    let (mut head, mut answer) = (Head::default(), None);
    let (mut body, mut errors) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(cut) {
        received.extend_from_slice(piece);
        while let Some(piece) = parser.next(&mut received)? {
            match piece {
                Piece::Output(output) if answer.is_some() => body.extend_from_slice(&output),
                Piece::Output(output) => {
                    if let Some((response, rest)) = head.add(&output)? {
                        answer = Some(format!("{response:?}"));
                        body.extend_from_slice(&rest);
                    }
                }
                Piece::Error(text) => errors.extend_from_slice(&text),
                Piece::End(_) => {}
            }
        }
    }
    Ok((answer, body, errors))
}
