//! Errors that scripts catch.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use sekisho_certs::HostName;
use sekisho_certs::metrics::Registry;
use tokio::time::Instant;

use crate::fake::{body, hello_of, report};

#[tokio::test]
async fn what_a_script_catches_says_where_and_can_be_raised_again() {
    let (hook, _) = body(
        "local ok, why = pcall(function()
            return redis('redis://there'):get('a')
        end)
        log(ok, why)
        local _, handled = xpcall(http.get, function(why) return 'handled ' .. why end, 'https://down/')
        log(handled)
        log(pcall(error, 'own'), pcall(error, {}) , (pcall(error)))
        log(pcall(function(...) return ... end, 1, nil, 3))
        error(why)",
    );
    let (_, report) = report(&hook, "shop.example").await;
    let away = "redis://there is not configured";
    assert_eq!(
        report.log,
        [
            &format!("false handshake.luau:3: {away}"),
            "handled handshake.luau:6: connection refused",
            "false false false",
            "true 1 nil 3",
        ]
    );
    let raised = format!("handshake.luau:10: handshake.luau:3: {away}");
    assert_eq!(report.error, Some(raised));
}

#[tokio::test]
async fn a_bound_that_a_script_catches_keeps_its_kind() {
    let (hook, _) = body(
        "local ok, why = pcall(function() return redis('redis://here'):get('a') end)
        error(why)",
    );
    let name = HostName::parse("shop.example").unwrap();
    let over = hello_of(Some(name), "203.0.113.1:1");
    let deadline = Instant::now() + Duration::from_secs(1);
    let (_, report) = hook.report(Arc::new(over), deadline).await;
    let error = report.error.unwrap();
    assert!(error.contains("too many runs wait"), "{error}");
    let mut registry = Registry::default();
    hook.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let counted = "hook_runs_total{outcome=\"overloaded\"} 1";
    assert!(text.contains(counted), "{text}");
}
