//! The client for scripts.

use super::*;

fn client(server: &RedisServer, scheme: &str) -> Redis {
    let url = format!("{scheme}://127.0.0.1:{}", server.port());
    let url = RedisUrl::parse(&url, Path::new("/")).unwrap();
    Redis::open(&url, &Handle::current()).unwrap()
}

async fn strings(client: &Redis, keys: &[&str]) -> Result<Vec<Option<String>>> {
    let keys: Vec<String> = keys.iter().map(|&key| key.into()).collect();
    let read = client.strings(&keys).await?;
    let text = |bytes: crate::pem_pair::Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    Ok(read.into_iter().map(|value| value.map(text)).collect())
}

fn failed<T: fmt::Debug>(answer: Result<T>) -> String {
    match answer {
        Err(StoreError::Failed(why)) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn strings_and_hashes_are_read_and_missing_ones_told() {
    let server = RedisServer::start();
    server.set("a", "1");
    server.set("empty", "");
    server.cli(&["hset", "h", "crt", "chain", "key", "private"]);
    let client = client(&server, "redis");
    let read = strings(&client, &["a", "none", "empty"]).await.unwrap();
    assert_eq!(read, [Some("1".into()), None, Some(String::new())]);
    let hash = client.hash("h").await.unwrap().unwrap();
    let hash: Vec<_> = hash.iter().map(|(k, v)| (&k[..], &v[..])).collect();
    assert_eq!(hash, [(&b"crt"[..], &b"chain"[..]), (b"key", b"private")]);
    assert!(client.hash("none").await.unwrap().is_none());
}

#[tokio::test]
async fn what_is_no_string_or_too_long_is_failed_and_not_absent() {
    let server = RedisServer::start();
    server.set("a", "1");
    server.cli(&["rpush", "list", "1"]);
    server.cli(&["setrange", "long", "10000000", "x"]);
    server.cli(&["hset", "wide", "0", "x"]);
    let eval = "for n=1,9 do redis.call('hset','wide',n,string.rep('x',1000000)) end";
    server.cli(&["eval", eval, "0"]);
    let client = client(&server, "redis");
    let why = failed(strings(&client, &["a", "list"]).await);
    assert!(why.contains("list holds no string"), "{why}");
    let why = failed(client.hash("list").await);
    assert!(why.contains("list holds no hash"), "{why}");
    for why in [
        failed(strings(&client, &["long"]).await),
        failed(client.hash("wide").await),
    ] {
        assert!(why.contains("over 1 MiB"), "{why}");
    }
    assert_eq!(strings(&client, &["a"]).await.unwrap(), [Some("1".into())]);
}

#[tokio::test]
async fn a_cluster_has_strings_of_all_nodes_and_no_hashes() {
    let cluster = RedisServer::start_cluster();
    for key in ["a", "b", "c"] {
        cluster.set(key, key);
    }
    let client = client(&cluster, "redis+cluster");
    let read = strings(&client, &["a", "b", "none", "c"]).await.unwrap();
    assert_eq!(
        read,
        [Some("a".into()), Some("b".into()), None, Some("c".into())]
    );
    assert!(matches!(
        client.hash("a").await,
        Err(StoreError::Refused(_))
    ));
}

#[tokio::test]
async fn a_server_that_is_gone_is_unavailable() {
    let mut server = RedisServer::start();
    let client = client(&server, "redis");
    client.reach().await.unwrap();
    server.stop();
    unavailable(strings(&client, &["a"]).await);
    unavailable(client.hash("a").await);
}
