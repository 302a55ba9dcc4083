//! Fields that `Connection` names, up to the bound on their number.

use crate::world::{HOST, OK, Upstream, World, field, status};

/// Returns a `Connection` field with so many names, of which the last is `x-last`.
fn naming(count: usize) -> String {
    let names: Vec<_> = (1..count).map(|at| format!("x-{at}")).collect();
    format!("Connection: {}, x-last\r\nX-Last: 1\r\n", names.join(","))
}

#[tokio::test]
async fn a_request_that_names_too_many_fields_is_refused() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    for (count, refused) in [(100, false), (101, true), (1000, true)] {
        let named = naming(count);
        client
            .send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n{named}\r\n"))
            .await;
        if refused {
            assert_eq!(status(&client.answer().await.0), 400, "{count}");
            assert!(upstream.is_alone(), "{count}");
            continue;
        }
        let mut server = upstream.accept().await;
        let head = server.head().await;
        assert_eq!(field(&head, "x-last"), None, "{count}");
        server
            .send(OK.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"))
            .await;
        assert_eq!(status(&client.answer().await.0), 200, "{count}");
    }
}

#[tokio::test]
async fn an_answer_that_names_too_many_fields_is_502() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    for (count, expected) in [(100, 200), (101, 502)] {
        client
            .send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"))
            .await;
        let mut server = upstream.accept().await;
        server.head().await;
        // `close` is a name, too.
        let named = naming(count - 1);
        server
            .send(format!(
                "HTTP/1.1 200 OK\r\n{named}Connection: close\r\nContent-Length: 2\r\n\r\nok"
            ))
            .await;
        let head = client.answer().await.0;
        assert_eq!(status(&head), expected, "{head}");
        assert_eq!(field(&head, "x-last"), None, "{head}");
    }
}
