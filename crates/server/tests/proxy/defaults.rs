//! Bounds of sites that set none.

use crate::world::{HOST, OK, Upstream, World, status};

#[tokio::test]
async fn a_body_has_100_mib_unless_a_site_says_otherwise() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    for (length, refused) in [(100 << 20, false), ((100 << 20) + 1, true)] {
        let mut client = world.connect().await;
        client
            .send(format!(
                "POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {length}\r\n\r\n"
            ))
            .await;
        if refused {
            assert_eq!(status(&client.head().await), 413);
            assert!(upstream.is_alone());
        } else {
            let mut server = upstream.accept().await;
            let head = server.head().await;
            assert!(head.contains("\r\ncontent-length: 104857600\r\n"), "{head}");
            server.send(OK).await;
            assert_eq!(status(&client.head().await), 200);
        }
    }
}
