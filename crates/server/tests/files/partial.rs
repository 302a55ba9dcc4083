//! Tests conditional and range requests (RFC 9110, sections 13 and 14).

use crate::server::{MODIFIED, Server};

#[tokio::test]
async fn a_fresh_copy_is_not_sent_again() {
    let server = Server::start().await;
    server.write("small.txt", "page");
    server.write("large.txt", vec![b'x'; 100_000]);
    for path in ["/small.txt", "/large.txt"] {
        let etag = server
            .get(path, "")
            .await
            .header("etag")
            .unwrap()
            .to_owned();
        for (headers, status) in [
            (format!("If-None-Match: {etag}\r\n"), 304),
            (format!("If-None-Match: \"x\", W/{etag}\r\n"), 304),
            ("If-None-Match: *\r\n".into(), 304),
            ("If-None-Match: \"x\"\r\n".into(), 200),
            (format!("If-Modified-Since: {MODIFIED}\r\n"), 304),
            (
                "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n".into(),
                200,
            ),
            (format!("If-Match: {etag}\r\n"), 200),
            ("If-Match: \"x\"\r\n".into(), 412),
            (
                "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n".into(),
                412,
            ),
            (format!("If-Unmodified-Since: {MODIFIED}\r\n"), 200),
        ] {
            let answer = server.get(path, &headers).await;
            assert_eq!(answer.status(), status, "{path} {headers}");
            if status == 304 {
                assert!(answer.body.is_empty());
                assert_eq!(answer.header("etag"), Some(&*etag));
                assert_eq!(answer.header("last-modified"), Some(MODIFIED));
                assert_eq!(answer.header("content-length"), None);
            }
        }
    }
}

#[tokio::test]
async fn parts_of_a_file() {
    let server = Server::start().await;
    let content: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    server.write("large.bin", &content);
    server.write("small.bin", &content[..1000]);
    for (path, len) in [("/small.bin", 1000), ("/large.bin", 200_000)] {
        let etag = server
            .get(path, "")
            .await
            .header("etag")
            .unwrap()
            .to_owned();
        for (range, start, end) in [
            ("bytes=0-0".to_owned(), 0, 1),
            ("bytes=10-19".to_owned(), 10, 20),
            (format!("bytes={}-", len - 7), len - 7, len),
            ("bytes=-9".to_owned(), len - 9, len),
            ("bytes=0-99999999".to_owned(), 0, len),
        ] {
            for condition in [String::new(), format!("If-Range: {etag}\r\n")] {
                let answer = server
                    .get(path, &format!("Range: {range}\r\n{condition}"))
                    .await;
                assert_eq!(answer.status(), 206, "{path} {range}");
                let expected = format!("bytes {start}-{}/{len}", end - 1);
                assert_eq!(answer.header("content-range"), Some(&*expected));
                assert_eq!(answer.body, content[start..end], "{path} {range}");
            }
        }
        for headers in [
            "Range: bytes=0-1,4-5\r\n",
            "Range: bytes=5-2\r\n",
            "Range: lines=0-1\r\n",
            "Range: bytes=0-1\r\nIf-Range: \"x\"\r\n",
            "Range: bytes=0-1\r\nIf-Range: Sun, 06 Nov 1994 08:49:36 GMT\r\n",
        ] {
            let answer = server.get(path, headers).await;
            assert_eq!(answer.status(), 200, "{path} {headers}");
            assert_eq!(answer.body, content[..len]);
        }
        let answer = server.get(path, &format!("Range: bytes={len}-\r\n")).await;
        assert_eq!(answer.status(), 416);
        assert_eq!(
            answer.header("content-range"),
            Some(&*format!("bytes */{len}"))
        );
        let headers = format!("Range: bytes=0-1\r\nIf-Range: {MODIFIED}\r\n");
        assert_eq!(server.get(path, &headers).await.status(), 206);
    }
}
