//! Tests the cache of a process that accepts no more.

use super::*;

#[tokio::test]
async fn a_cache_given_back_is_empty_and_files_are_served_on() {
    let mut fixture = Fixture::new();
    fixture.files = Files::new(64 << 20, Arc::default());
    for number in 0..200 {
        fixture.write(&format!("{number}.txt"), vec![7; 30_000]);
        fixture.fetch(&format!("/{number}.txt")).await;
    }
    let cache = &fixture.files.0.cache;
    assert!(cache.entries.weight() > 5 << 20);
    fixture.files.give_back();
    assert_eq!(cache.entries.len(), 0);
    fixture.write("largest.txt", vec![7; usize::try_from(SMALL).unwrap()]);
    for _ in 0..2 {
        for path in ["/1.txt", "/largest.txt"] {
            assert_eq!(fixture.fetch(path).await.0, StatusCode::OK, "{path}");
        }
    }
    for number in 0..200 {
        fixture.fetch(&format!("/{number}.txt")).await;
    }
    let weight = fixture.files.0.cache.entries.weight();
    assert!(weight <= GIVEN_BACK as u64, "{weight}");
}
