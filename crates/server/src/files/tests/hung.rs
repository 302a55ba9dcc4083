//! Tests roots whose reads hang: each read keeps its permit.

use super::*;

/// Takes every permit of a root, as hung reads do.
fn hang(fixture: &Fixture, root: &Root) -> Vec<Turn> {
    let host = HostName::parse("a.example").unwrap();
    let share = fixture.files.0.turns.share(root, &host);
    std::iter::from_fn(|| share.try_turn()).collect()
}

#[tokio::test]
async fn another_root_is_read_and_what_is_in_memory_is_served() {
    pause();
    let fixture = Fixture::new();
    fixture.write("hung/page.txt", "page");
    fixture.write("hung/folder/index.html", "index");
    fixture.write("well/page.txt", "well");
    let [hung, well] = ["hung", "well"].map(|name| {
        let path = fixture.root().join(name);
        root(path.to_str().unwrap())
    });
    let fetch = |root, path| fixture.fetch_below(root, "a.example", path);
    assert_eq!(fetch(&hung, "/page.txt").await.1, b"page");
    assert_eq!(fetch(&hung, "/folder").await.0, 308);
    assert_eq!(fetch(&hung, "/missing.txt").await.0, 404);

    let turns = hang(&fixture, &hung);
    advance(Duration::from_secs(3600)).await;
    let begun = tokio::time::Instant::now();
    assert_eq!(fetch(&well, "/page.txt").await.1, b"well");
    assert_eq!(fetch(&hung, "/page.txt").await.1, b"page");
    assert!(begun.elapsed() < Duration::from_secs(1));
    // An old directory or absence may be a file by now.
    for path in ["/folder", "/missing.txt", "/other.txt"] {
        assert_eq!(fetch(&hung, path).await.0, 503, "{path}");
    }

    drop(turns);
    fixture.write("hung/page.txt", "other");
    assert_eq!(fetch(&hung, "/page.txt").await.1, b"other");
}
