//! TLS to a real server.

use super::*;

/// Tells whether a read works, or why not.
async fn tried(parameters: &str) -> Result<()> {
    let server = services::Postgres::shared();
    let plain = database();
    create(&plain).head().await.unwrap();
    let url = format!("{}?{parameters}", server.url(name_of(&plain)));
    let parsed = Url::parse(&url, Path::new("/")).unwrap();
    let options = Options::default();
    let store = Postgres::new(&parsed, &options, &Handle::current())?;
    store.head().await?;
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE ssl AND application_name = 'sekisho' AND datname = current_database()";
    let encrypted = server.sql(name_of(&plain), encrypted);
    assert_ne!(encrypted.trim(), "0", "{parameters}");
    Ok(())
}

fn trusting(mode: &str) -> String {
    let authority = services::Postgres::shared().authority();
    format!("sslmode={mode}&sslrootcert={}", authority.display())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_sslmode_asks_for_is_checked() {
    tried("sslmode=prefer").await.unwrap();
    tried("").await.unwrap();
    tried("sslmode=require").await.unwrap();
    tried("sslmode=require&channel_binding=require")
        .await
        .unwrap();
    for mode in ["require", "verify-ca", "verify-full"] {
        tried(&trusting(mode)).await.unwrap();
    }
    // No root that the system trusts signed it.
    for mode in ["verify-ca", "verify-full"] {
        let error = tried(&format!("sslmode={mode}")).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("certificate") || text.contains("authority"),
            "{text}"
        );
        assert!(!text.contains("correct-horse"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_name_counts_only_for_verify_full() {
    // The server is asked under a name that its certificate does not have.
    let by_name = |mode: &str| format!("{}&host=localhost&hostaddr=127.0.0.1", trusting(mode));
    let server = services::Postgres::shared();
    let plain = database();
    create(&plain).head().await.unwrap();
    let read = async |mode: &str| {
        let port = server.port();
        let url = format!(
            "postgres:///{}?user=sekisho&password=correct-horse&port={port}&{}",
            name_of(&plain),
            by_name(mode)
        );
        existing(&url).head().await
    };
    read("verify-ca").await.unwrap();
    let error = read("verify-full").await.unwrap_err().to_string();
    assert!(error.contains("not valid for name"), "{error}");
}

#[tokio::test]
async fn a_missing_authority_is_named() {
    let error = tried("sslmode=verify-ca&sslrootcert=/no/such/ca.pem").await;
    let error = error.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error}");
    assert!(error.to_string().contains("/no/such/ca.pem"), "{error}");
}
