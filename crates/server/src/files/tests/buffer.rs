//! Tests of what a cached file takes.

use http::header::{CONTENT_LENGTH, ETAG, LAST_MODIFIED};

use super::super::load::TEXTS;
use super::*;
use crate::site::allocated;

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

#[tokio::test]
async fn large_files_take_no_memory() {
    let fixture = Fixture::new();
    for (name, len, entries) in [("most", SMALL, 1), ("more", SMALL + 1, 2)] {
        let content = vec![b'x'; usize::try_from(len).unwrap()];
        fixture.write(name, &content);
        assert_eq!(fixture.fetch(&format!("/{name}")).await.1, content);
        assert_eq!(fixture.files.0.cache.entries.len(), entries, "{name}");
    }
    let most = allocated(usize::try_from(SMALL).unwrap() + TEXTS) as u64;
    let noted = fixture.files.0.cache.entries.weight() - most;
    assert!(noted < 4096, "{noted}");
}
