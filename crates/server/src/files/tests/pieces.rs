//! Tests how much of a file is in memory.

use super::*;

#[tokio::test]
async fn the_first_piece_of_a_large_file_is_small() {
    let fixture = Fixture::new();
    fixture.write("large", vec![b'x'; 200 << 10]);
    let root = root(fixture.root().to_str().unwrap());
    let answer = fixture.answer(&root, "a.example", "/large").await;
    let mut body = answer.into_body();
    let mut pieces = Vec::new();
    while let Some(frame) = body.frame().await {
        pieces.push(frame.unwrap().into_data().unwrap().len() >> 10);
    }
    assert_eq!(pieces, [16, 64, 64, 56]);
}
