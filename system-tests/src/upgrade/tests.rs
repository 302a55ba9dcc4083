//! Tests that the client counts what it must.

use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use super::field::{Field, Kind};
use super::generations::{self, Generations};
use super::http1::{Connection, Idle, Reading};
use super::report;

#[tokio::test]
async fn a_cut_or_wrong_answer_is_a_failure() {
    for (answer, reason) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "closed before",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhallo",
            "other bytes",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell",
            "another Content-Length",
        ),
        (
            "HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nhello",
            "status 503",
        ),
        ("HTTP/1.1 200 OK\r\nConte", "closed before"),
        ("", "closed before"),
    ] {
        let read = async {
            let mut connection = answered(answer).await;
            let head = connection.head().await?;
            connection.body(&head, b"hello", Reading::FAST).await
        };
        let failure = read.await.unwrap_err().kind();
        assert!(failure.contains(reason), "{answer:?}: {failure}");
    }
}

#[tokio::test]
async fn an_answer_may_end_the_connection() {
    let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello";
    let mut connection = answered(answer).await;
    let head = connection.head().await.unwrap();
    assert!(head.closes);
    connection
        .body(&head, b"hello", Reading::FAST)
        .await
        .unwrap();
    connection.closed().await.unwrap();
    assert!(matches!(connection.idle(), Idle::Closed));
}

#[tokio::test]
async fn an_old_configuration_is_a_failure_after_a_moment() {
    tokio::time::pause();
    let generations = Generations::default();
    generations.see(2, Instant::now()).unwrap();
    generations.see(1, Instant::now()).unwrap();
    tokio::time::advance(std::time::Duration::from_secs(2)).await;
    assert!(generations.see(1, Instant::now()).is_err());
    assert_eq!(generations.newest(), 2);
    let location = format!("https://{}/marker.test", generations::host(17));
    assert_eq!(generations::parse(&location), Some(17));
}

#[test]
fn the_last_line_counts_all_kinds() {
    let field = Field::new(2).unwrap();
    field.took(Kind::Uploads, std::time::Duration::from_millis(1));
    assert_eq!(report::last_line(&field), "0 failed of 1");
    field.broken("a reload");
    assert_eq!(report::last_line(&field), "1 failed of 2");
}

#[test]
fn sockets_are_renewed_before_a_third_hand_over() {
    let field = Field::new(1).unwrap();
    assert!(!field.are_sockets_ready(), "none is open");
    field.socket(0, Some(field.handovers()));
    field.handed_over();
    assert!(field.are_sockets_ready());
    field.handed_over();
    assert!(!field.are_sockets_ready());
}

/// Makes a connection whose server has sent this text and closed.
async fn answered(text: &str) -> Connection<tokio::io::DuplexStream> {
    let (client, mut server) = tokio::io::duplex(1 << 10);
    server.write_all(text.as_bytes()).await.unwrap();
    Connection::new(client)
}
