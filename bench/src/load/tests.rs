//! Tests the load generator against a small rustls server in this process.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Parser;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;

use super::run::Run;
use super::{Options, Outcome};

#[tokio::test]
async fn full_handshakes_with_a_request() {
    let outcome = measure(&["--handshakes", "40", "--warmup", "4", "--no-verify"]).await;
    assert_eq!((outcome.operations, outcome.handshakes), (40, 40));
    assert_eq!((outcome.resumed, outcome.failed), (0, 0), "{outcome:?}");
}

#[tokio::test]
async fn resumed_handshakes() {
    let outcome = measure(&[
        "--handshakes",
        "40",
        "--warmup",
        "40",
        "--resume",
        "resumed",
        "--no-verify",
    ])
    .await;
    assert_eq!((outcome.resumed, outcome.failed), (40, 0), "{outcome:?}");
}

#[tokio::test]
async fn handshakes_without_a_request_over_tls_12() {
    let outcome = measure(&[
        "--handshakes",
        "8",
        "--request",
        "none",
        "--tls",
        "1.2",
        "--sources",
        "300",
        "--no-verify",
    ])
    .await;
    assert_eq!((outcome.operations, outcome.failed), (8, 0), "{outcome:?}");
}

#[tokio::test]
async fn a_stranger_as_authority_fails_the_handshake() {
    let file = std::env::temp_dir().join(format!("sekisho-bench-{}.pem", std::process::id()));
    let stranger = certificate();
    std::fs::write(&file, &stranger.0).unwrap();
    let outcome = measure(&["--handshakes", "2", "--ca", file.to_str().unwrap()]).await;
    std::fs::remove_file(&file).unwrap();
    assert_eq!((outcome.operations, outcome.failed), (0, 2));
    let kind = outcome.errors.keys().next().unwrap();
    assert!(kind.starts_with("handshake: "), "{kind}");
}

#[tokio::test]
async fn a_missing_page_is_a_failure() {
    let outcome = measure(&["--handshakes", "3", "--request", "/gone", "--no-verify"]).await;
    assert_eq!(outcome.errors["status 404"], 3);
}

#[tokio::test]
async fn requests_on_open_connections() {
    let target = serve().await;
    let options = options(target, &["--keepalive", "10", "--no-verify"]);
    let run = std::rc::Rc::new(Run::new(&options).unwrap());
    let outcome = LocalSet::new()
        .run_until(async {
            let connections = run.connections().await.unwrap();
            run.requests(&connections, Some(40), None).await.unwrap();
            run.hold(&connections, None).await.unwrap()
        })
        .await;
    assert_eq!((outcome.handshakes, outcome.operations), (4, 4));
    assert_eq!(outcome.failed, 0, "{outcome:?}");
}

#[tokio::test]
async fn requests_carry_a_field() {
    let arguments = ["--keepalive", "10", "--no-verify", "--request", "/secret"];
    let field = ["--first-byte", "--field", "X-Secret: yes"];
    for (field, answered) in [(&field[..], 40), (&[], 0)] {
        let options = options(serve().await, &[&arguments, field].concat());
        let run = std::rc::Rc::new(Run::new(&options).unwrap());
        let outcome = LocalSet::new()
            .run_until(async {
                let connections = run.connections().await.unwrap();
                run.requests(&connections, Some(40), None).await.unwrap()
            })
            .await;
        assert_eq!(outcome.operations, answered, "{outcome:?}");
    }
}

#[tokio::test]
async fn a_schedule_is_kept_and_its_lag_told() {
    let target = serve().await;
    let arguments = ["--rate", "200", "--counts", "--json", "--no-verify"];
    let options = options(target, &arguments);
    let run = std::rc::Rc::new(Run::new(&options).unwrap());
    let outcome = LocalSet::new()
        .run_until(run.paced(options.rate.unwrap(), Some(20), None))
        .await
        .unwrap();
    assert_eq!((outcome.operations, outcome.failed), (20, 0), "{outcome:?}");
    assert_eq!((outcome.seconds, outcome.per_second), (0.1, 200.0));
    let counted: u64 = outcome.counts.iter().map(|(_, count)| count).sum();
    assert_eq!(counted, 20);
    let slowest = outcome.counts.last().unwrap().0;
    assert!(slowest >= outcome.operation_us.max, "{outcome:?}");
    let lag = outcome.lag_us.unwrap();
    assert!(
        lag.p50 <= outcome.handshake_us.p50,
        "a time counts from when it was due"
    );
}

/// Four connections at a time, of 20 ms at most, leave no time for 2,000.
#[tokio::test]
async fn what_has_no_place_in_the_schedule_is_told() {
    let target = serve().await;
    let arguments = ["--rate", "100000", "--deadline", "0.02", "--no-verify"];
    let options = options(target, &arguments);
    let run = std::rc::Rc::new(Run::new(&options).unwrap());
    let outcome = LocalSet::new()
        .run_until(run.paced(options.rate.unwrap(), Some(2_000), None))
        .await
        .unwrap();
    assert_eq!(outcome.operations + outcome.failed, 2_000, "{outcome:?}");
    let kind = "not begun: all connections are in use";
    assert!(outcome.errors[kind] > 0, "{outcome:?}");
}

#[test]
fn a_run_without_an_end_is_refused() {
    let target = "127.0.0.1:1".parse().unwrap();
    assert!(options(target, &["--no-verify"]).check().is_err());
    assert!(options(target, &["--idle", "--no-verify"]).check().is_err());
    let bounded = options(target, &["--seconds", "1", "--no-verify"]);
    assert!(bounded.check().is_ok());
}

/// The server waits for the second half of a ClientHello, and answers a whole one.
#[tokio::test]
async fn hellos_wait_until_the_server_answers() {
    let target = serve().await;
    for (part, waiting) in [("half", 4), ("whole", 0)] {
        let options = options(target, &["--hellos", part, "--gate", "--no-verify"]);
        let run = Run::new(&options).unwrap();
        let hellos = run.hellos(options.hellos.unwrap()).await.unwrap();
        let mut outcome = hellos.outcome().await;
        for _ in 0..10_000 {
            if outcome.operations == waiting {
                break;
            }
            outcome = hellos.outcome().await;
        }
        assert_eq!((outcome.operations, outcome.failed), (waiting, 4 - waiting));
    }
}

async fn measure(arguments: &[&str]) -> Outcome {
    let target = serve().await;
    let options = options(target, arguments);
    let run = std::rc::Rc::new(Run::new(&options).unwrap());
    LocalSet::new()
        .run_until(async {
            run.handshakes(Some(options.warmup), None).await.unwrap();
            run.handshakes(options.handshakes, options.seconds).await
        })
        .await
        .unwrap()
}

fn options(target: SocketAddr, arguments: &[&str]) -> Options {
    #[derive(Parser)]
    struct Wrapper {
        #[command(flatten)]
        options: Options,
    }
    let target = target.to_string();
    let fixed = [
        "load",
        "--target",
        &target,
        "--name-pattern",
        "h{n}.example.test",
        "--count",
        "4",
        "--concurrency",
        "4",
    ];
    let arguments = fixed.iter().chain(arguments);
    Wrapper::try_parse_from(arguments).unwrap().options
}

async fn serve() -> SocketAddr {
    let (chain, key) = certificate();
    let chain = vec![rustls::pki_types::CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(tcp).await {
                    let _ = answer(stream).await;
                }
            });
        }
    });
    address
}

/// Answers requests. Each read is one request: the client sends it in one
/// write.
async fn answer<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    mut stream: S,
) -> std::io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        let read = stream.read(&mut buffer).await?;
        let request = String::from_utf8_lossy(&buffer[..read]);
        if read == 0 {
            return stream.shutdown().await;
        }
        let knows = request.starts_with("GET /secret ") && request.contains("X-Secret: yes\r\n");
        let status = if request.starts_with("GET / ") || knows {
            "200 OK"
        } else {
            "404 Not Found"
        };
        let response = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok");
        stream.write_all(response.as_bytes()).await?;
        if request.contains("Connection: close") {
            return stream.shutdown().await;
        }
    }
}

fn certificate() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = (0..4).map(|n| format!("h{n}.example.test")).collect();
    let certificate = CertificateParams::new(names)
        .unwrap()
        .self_signed(&key)
        .unwrap();
    (certificate.pem(), key.serialize_pem())
}
