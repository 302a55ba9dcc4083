//! Tests that a cached file is a single buffer.

use http::header::{CONTENT_LENGTH, ETAG, LAST_MODIFIED};

use super::super::load::TEXTS;
use super::*;

#[tokio::test]
async fn the_values_of_a_cached_file_lie_behind_its_body() {
    let fixture = Fixture::new();
    for (path, body) in [("page.html", "page"), ("empty.html", "")] {
        fixture.write(path, body);
        assert_eq!(fixture.fetch(&format!("/{path}")).await.1, body.as_bytes());
    }
    for (key, entry) in fixture.files.0.cache.entries.iter() {
        let What::File(file) = &entry.what else {
            panic!("{} is a small file", key.path);
        };
        let start = file.body.as_ptr() as usize + file.body.len();
        for name in [CONTENT_LENGTH, ETAG, LAST_MODIFIED] {
            let value = file.head.headers[&name].as_bytes().as_ptr() as usize;
            assert!((start..start + TEXTS).contains(&value), "{name}");
        }
    }
    assert_eq!(fixture.files.0.cache.entries.len(), 2);
}
