//! Clients that wait: absent and failed stay apart.

use std::sync::atomic::Ordering::SeqCst;

use sekisho_hook::SqlValue;

use crate::fake::{body, failure, report};

#[tokio::test]
async fn redis_answers_values_and_nil() {
    let (hook, world) = body(
        r#"
        local r = redis("redis://here")
        log(r:get("a"), r:get("none"))
        log(r:mget("a", "none", "a"))
        local hash = r:hgetall("a")
        log(hash.crt, r:hgetall("none"))
        "#,
    );
    world
        .values
        .lock()
        .unwrap()
        .insert("a".into(), b"1".to_vec());
    let (_, report) = report(&hook, "shop.example").await;
    assert_eq!(report.error, None);
    assert_eq!(report.log, ["1 nil", "1 nil 1", "1 nil"]);
    let calls: Vec<_> = report
        .calls
        .iter()
        .map(|call| (&*call.what, &*call.answer))
        .collect();
    assert_eq!(calls[1], ("redis GET none", "absent"));
    assert_eq!(calls[2], ("redis MGET a none a", "2 bytes"));
}

#[tokio::test]
async fn clients_that_fail_raise_and_are_never_absent() {
    for (script, what) in [
        (
            "redis('redis://there'):get('a')",
            "redis://there is not configured",
        ),
        (
            "redis('redis://here'):get('big')",
            "redis answered with 10485760 bytes (at most 1 MiB)",
        ),
        (
            "redis('redis://here'):get('hash')",
            "Redis answered with another kind of value",
        ),
        (
            "redis('redis://here'):get()",
            "redis:get: key must be a string, not nil",
        ),
        (
            "redis('redis://here'):mget()",
            "redis:mget takes 1 to 64 keys",
        ),
        ("redis('redis://here'):set('a', 'b')", "attempt to call"),
        (
            "redis('redis://here').get('a')",
            "redis:get needs its client (write a colon, not a dot)",
        ),
        ("http.get('https://down/')", "connection refused"),
        (
            "http.get('https://here/found', {timout = 1})",
            "http.get: second argument must be",
        ),
        (
            "sql('other'):query('SELECT 1')",
            "[hook.sql] has no database other",
        ),
    ] {
        let (hook, _) = body(script);
        let error = failure(&hook).await;
        assert!(error.contains(what), "{script}: {error}");
        assert!(error.starts_with("handshake.luau:2: "), "{script}: {error}");
    }
}

#[tokio::test]
async fn a_call_where_no_coroutine_can_wait_fails_and_leaves_nothing() {
    let (hook, world) = body(
        r#"
        local r = redis("redis://here")
        log(pcall(table.sort, {2, 1}, function(a, b)
            return r:get("b") < r:get("a")
        end))
        log(r:get("a"))
        "#,
    );
    let value = ("a".into(), b"1".to_vec());
    world.values.lock().unwrap().extend([value]);
    let (_, report) = report(&hook, "shop.example").await;
    assert_eq!(report.error, None);
    let why = "false attempt to yield across metamethod/C-call boundary";
    assert_eq!(report.log, [why, "1"]);
    assert_eq!(world.commands.load(SeqCst), 1);
}

#[tokio::test]
async fn every_status_is_an_answer() {
    let (hook, _) = body(
        r#"
        for _, path in {"found", "absent", "broken", "moved"} do
            local answer = http.get("https://here/" .. path, {headers = {["X-Token"] = "t"}})
            log(answer.status, answer.body, answer.headers["X-Token"])
        end
        "#,
    );
    let (_, report) = report(&hook, "shop.example").await;
    assert_eq!(
        report.log,
        ["200 body t", "404 body t", "500 body t", "302 body t"]
    );
}

#[tokio::test(start_paused = true)]
async fn requests_have_a_timeout_that_scripts_can_catch() {
    let (hook, _) = body(
        r#"
        local ok, why = pcall(http.get, "https://here/hang", {timeout = 0.5})
        log(ok, why)
        tls:use("a.example")
        "#,
    );
    let (_, report) = report(&hook, "shop.example").await;
    assert_eq!(report.error, None);
    assert!(report.log[0].starts_with("false"), "{:?}", report.log);
    assert!(
        report.log[0].contains("no answer in time"),
        "{:?}",
        report.log
    );
}

#[tokio::test]
async fn parameters_of_queries_are_only_parameters() {
    let (hook, world) = body(
        r#"
        local evil = "'; DROP TABLE hosts; --"
        local rows = sql("main"):query("SELECT host FROM hosts WHERE name = $1", evil, 7, 1.5, nil, true, "\255")
        log(#rows, rows[1].host, rows[1].port, rows[1].note)
        "#,
    );
    let (_, report) = report(&hook, "shop.example").await;
    assert_eq!(report.error, None);
    assert_eq!(report.log, ["1 there.example 443 nil"]);
    let queries = world.queries.lock().unwrap();
    assert_eq!(queries[0].0, "SELECT host FROM hosts WHERE name = $1");
    assert_eq!(
        queries[0].1,
        [
            SqlValue::Text("'; DROP TABLE hosts; --".into()),
            SqlValue::Integer(7),
            SqlValue::Float(1.5),
            SqlValue::Null,
            SqlValue::Bool(true),
            SqlValue::Bytes(vec![255]),
        ]
    );
}

#[tokio::test]
async fn clients_can_be_made_once_and_only_asked_in_runs() {
    let (hook, world) = crate::fake::hook_with(
        "local r = redis('redis://here') function handshake(tls) log(r:get('a')) end",
        |_| {},
    );
    world
        .values
        .lock()
        .unwrap()
        .insert("a".into(), b"1".to_vec());
    assert_eq!(report(&hook, "shop.example").await.1.log, ["1"]);
    let error = crate::fake::refused("redis('redis://here'):get('a')");
    assert!(error.contains("nothing is looked up here"), "{error}");
}

#[tokio::test]
async fn values_of_the_cache_are_shared_and_end() {
    let (hook, _) = body(
        r#"
        log(cache:get("n"), cache:get("s"), cache:get("b"))
        cache:set("n", 1.5, 60)
        cache:set("s", "text", 60)
        cache:set("b", false, 60)
        "#,
    );
    report(&hook, "shop.example").await;
    let (_, second) = report(&hook, "shop.example").await;
    assert_eq!(second.log, ["1.5 text false"]);
    for (script, what) in [
        (
            "cache:set('a', {}, 1)",
            "value must be nil, a boolean, a number or a string",
        ),
        ("cache:set('a', 1)", "ttl must be a number of seconds"),
        ("cache:set('a', 1, 0)", "ttl must be 0.001"),
        (
            "cache:set(string.rep('a', 257), 1, 1)",
            "key must be at most 256 bytes",
        ),
        ("cache:get('')", "key must be at least one byte"),
    ] {
        let (hook, _) = body(script);
        let error = failure(&hook).await;
        assert!(error.contains(what), "{script}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn values_of_the_cache_are_bounded_in_bytes_and_time() {
    let script = "function handshake(tls)
        for i = 1, 200 do cache:set('k' .. i, string.rep('x', 60000), 10) end
        cache:set('last', 1, 10)
        local count = 0
        for i = 1, 200 do if cache:get('k' .. i) then count += 1 end end
        log(count)
    end";
    let (hook, _) = crate::fake::hook_with(script, |settings| {
        settings.cache = 1 << 20;
        settings.cpu = std::time::Duration::from_secs(5);
    });
    let (_, report) = report(&hook, "shop.example").await;
    assert_eq!(report.error, None);
    let count: usize = report.log[0].parse().unwrap();
    assert!((1..=17).contains(&count), "{count}");
    let (hook, _) = body("log(cache:get('a')) cache:set('a', 1, 10)");
    crate::fake::ask(&hook, "shop.example").await;
    tokio::time::advance(std::time::Duration::from_secs(11)).await;
    assert_eq!(
        crate::fake::report(&hook, "shop.example").await.1.log,
        ["nil"]
    );
}
