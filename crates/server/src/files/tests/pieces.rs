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

#[tokio::test]
async fn a_large_file_is_not_opened_again_without_a_permit() {
    pause();
    let fixture = Fixture::new();
    let root = root(fixture.root().to_str().unwrap());
    fixture.write("large", vec![b'x'; 200 << 10]);
    let find = async |noted| fixture.find(&root, "/large", noted).await;
    assert!(matches!(find(true).await, Found::Large { .. }));
    assert!(matches!(find(true).await, Found::Noted));
    assert!(matches!(find(false).await, Found::Large { .. }), "with one");
    assert_eq!(fixture.fetch("/large").await.1.len(), 200 << 10);
    advance(Duration::from_secs(11)).await;
    assert!(
        matches!(find(true).await, Found::Large { .. }),
        "it may be small"
    );
}
