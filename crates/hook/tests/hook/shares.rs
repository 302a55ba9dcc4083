//! Memory and CPU time of a worker, shared by the networks of clients.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use sekisho_certs::HostName;
use sekisho_hook::{Answer, Choice, Hook, Report};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::Instant;

use crate::bounds::metrics;
use crate::fake::{Certificate, Fake, ask, hello_of, hook_with, report};

pub(crate) type Reported = (Answer<Arc<Certificate>>, Report);

pub(crate) const NEIGHBOUR: &str = "192.0.2.7:1";
pub(crate) const CROWD: &str = "198.51.100.1:1";

/// Runs a hook in a task for a client of this address.
pub(crate) fn run(hook: &Arc<Hook<Fake>>, name: &str, client: &str) -> JoinHandle<Reported> {
    let hook = Arc::clone(hook);
    let name = HostName::parse(name).unwrap();
    let hello = Arc::new(hello_of(Some(name), client));
    let deadline = Instant::now() + Duration::from_secs(10);
    tokio::spawn(async move { hook.report(hello, deadline).await })
}

/// Lets all tasks run until they wait.
pub(crate) async fn settle() {
    for _ in 0..100 {
        yield_now().await;
    }
}

/// Script whose runs keep memory over a wait, as much as the name says.
const HOLDS: &str = "local runs, sizes = 0, {holds = 12e6, some = 200e3, needs = 5e6}
    function handshake(tls)
        runs += 1
        local kind = tls.server_name:match('^%a+')
        local text = string.rep('x', (sizes[kind] or 500e3) + runs)
        redis('redis://here'):get(if kind == 'holds' or kind == 'some' then 'hang' else 'gate')
        log(runs, #text)
        tls:use('a.example')
    end";

#[tokio::test(start_paused = true)]
async fn memory_that_one_network_holds_ends_no_run_of_another() {
    for (kind, count) in [("holds", 8), ("some", 100)] {
        let (hook, world) = hook_with(HOLDS, |_| {});
        let hook = Arc::new(hook);
        let (mut neighbours, mut crowd) = (Vec::new(), Vec::new());
        for number in 0..count {
            if number < 5 {
                neighbours.push(run(&hook, "neighbour.example", NEIGHBOUR));
            }
            crowd.push(run(&hook, &format!("{kind}.example"), CROWD));
            // Networks rest after long stretches.
            tokio::time::sleep(Duration::from_secs(4) / count).await;
            settle().await;
        }
        // There is no memory for this run, which begins again.
        neighbours.push(run(&hook, "needs.example", NEIGHBOUR));
        settle().await;
        world.gate.notify_waiters();
        for neighbour in neighbours {
            let (answer, report) = neighbour.await.unwrap();
            assert!(matches!(answer.choice, Choice::Use(_)), "{report:?}");
        }
        let mut broken = 0;
        for run in crowd {
            let error = run.await.unwrap().1.error.unwrap();
            broken += usize::from(error.contains("its network held most"));
        }
        assert!(broken >= count as usize / 2, "{broken}");
        assert_eq!(world.spent.load(SeqCst), broken, "each is charged");
        assert_replaced(&hook, 0);
    }
}

/// A bomb takes all memory by itself: garbage is collected, and it does not begin again.
#[tokio::test(start_paused = true)]
async fn a_bomb_is_charged_and_replaces_nothing() {
    let script = "local runs = 0
        function handshake(tls)
            runs += 1
            if tls.server_name == 'bomb.example' then
                local t = {} while true do table.insert(t, string.rep('x', 1e5 + #t)) end
            end
            redis('redis://here'):get('gate')
            log(runs)
            tls:use('a.example')
        end";
    let (hook, world) = hook_with(script, |settings| settings.cpu = Duration::from_secs(20));
    let hook = Arc::new(hook);
    let neighbour = run(&hook, "neighbour.example", NEIGHBOUR);
    settle().await;
    for bombs in 1..=3 {
        let (_, bombed) = run(&hook, "bomb.example", CROWD).await.unwrap();
        let error = bombed.error.unwrap();
        assert!(error.contains("too much memory"), "{error}");
        assert_eq!(world.spent.load(SeqCst), bombs, "without a store call, too");
    }
    world.gate.notify_waiters();
    let (answer, report) = neighbour.await.unwrap();
    assert!(matches!(answer.choice, Choice::Use(_)), "{report:?}");
    assert_eq!(report.log, ["4"], "one state, and each bomb has run once");
}

#[tokio::test(start_paused = true)]
async fn a_cut_is_charged_and_replaces_nothing() {
    let script = "local runs = 0
        function handshake(tls)
            runs += 1
            if tls.server_name == 'cut.example' then while true do end end
            redis('redis://here'):get('gate')
            log(runs)
            tls:use('a.example')
        end";
    let (hook, world) = hook_with(script, |_| {});
    let hook = Arc::new(hook);
    let neighbour = run(&hook, "neighbour.example", NEIGHBOUR);
    settle().await;
    for cuts in 1..=3 {
        let (answer, report) = run(&hook, "cut.example", CROWD).await.unwrap();
        assert!(matches!(answer.choice, Choice::Refuse(80)), "{report:?}");
        assert_eq!(world.spent.load(SeqCst), cuts);
    }
    world.gate.notify_waiters();
    let (answer, report) = neighbour.await.unwrap();
    assert!(matches!(answer.choice, Choice::Use(_)), "{report:?}");
    assert_eq!(report.log, ["4"]);
    assert_replaced(&hook, 0);
}

/// What the script itself keeps is freed with its state alone. Runs that wait there go
/// on, and bound how many states live.
#[tokio::test(start_paused = true)]
async fn at_most_two_older_states_live() {
    let script = "local kept = {}
        function handshake(tls)
            if tls.server_name == 'wait.example' then
                redis('redis://here'):get('gate')
            else
                for i = 1, 7 do table.insert(kept, string.rep('x', 1e6 + #kept)) end
            end
            tls:use('a.example')
        end";
    let (hook, world) = hook_with(script, |settings| settings.memory = 8 << 20);
    let hook = Arc::new(hook);
    let hoard = async || run(&hook, "hoard.example", CROWD).await.unwrap();
    let mut waiting = Vec::new();
    for state in 1..=3 {
        waiting.push(run(&hook, "wait.example", NEIGHBOUR));
        settle().await;
        let (answer, report) = hoard().await;
        assert!(matches!(answer.choice, Choice::Use(_)), "{report:?}");
        assert_replaced(&hook, state.min(2));
    }
    let (_, full) = hoard().await;
    assert!(full.error.unwrap().contains("too much memory"));
    assert_replaced(&hook, 2);
    world.gate.notify_waiters();
    for run in waiting {
        let (answer, report) = run.await.unwrap();
        assert!(matches!(answer.choice, Choice::Use(_)), "{report:?}");
    }
    let (answer, report) = hoard().await;
    assert!(matches!(answer.choice, Choice::Use(_)), "{report:?}");
    assert!(metrics(&hook).contains("hook_states_replaced_total 4"));
}

/// Runs of a busy worker go on, but for those of a network without tokens.
#[tokio::test]
async fn a_busy_worker_runs_for_networks_with_tokens() {
    let script = "function handshake(tls)
        if tls.server_name == 'cut.example' then while true do end end
        tls:use('a.example')
    end";
    let (hook, _) = hook_with(script, |_| {});
    cut(&hook).await;
    let answer = ask(&hook, "shop.example").await;
    assert!(matches!(answer.choice, Choice::Use(_)));
    let hook = Arc::new(hook);
    // The fake has no tokens for this network.
    let (_, refused) = run(&hook, "shop.example", "203.0.113.1:1").await.unwrap();
    let error = refused.error.unwrap();
    assert!(error.contains("too many runs"), "{error}");
}

/// The last stretch of a run that fills its state is short, the collection after it is not.
#[tokio::test(start_paused = true)]
async fn the_network_that_filled_a_state_rests_for_the_collection() {
    let script = "local kept
        function handshake(tls)
            if tls.server_name ~= 'fill.example' then return tls:use('a.example') end
            local own = table.create(1.2e6)
            for i = 1, 1.2e6 do own[i] = {} end
            redis('redis://here'):get('gate')
            kept = own
            tls:use('a.example')
        end";
    let (hook, world) = hook_with(script, |settings| {
        settings.memory = 96 << 20;
        settings.cpu = Duration::from_secs(20);
    });
    let hook = Arc::new(hook);
    let fills = run(&hook, "fill.example", CROWD);
    settle().await;
    world.gate.notify_waiters();
    let (answer, report) = fills.await.unwrap();
    assert!(matches!(answer.choice, Choice::Use(_)), "{report:?}");
    assert_replaced(&hook, 1);
    let rests = run(&hook, "shop.example", CROWD);
    let other = run(&hook, "shop.example", NEIGHBOUR);
    settle().await;
    assert!(other.is_finished() && !rests.is_finished());
    let (answer, report) = rests.await.unwrap();
    assert!(matches!(answer.choice, Choice::Use(_)), "{report:?}");
}

/// Tokio by itself would look at timers and sockets once all ten are through.
#[tokio::test]
async fn a_busy_worker_serves_others_after_each_turn() {
    let (hook, world) = hook_with("function handshake(tls) while true do end end", |_| {});
    let hook = Arc::new(hook);
    let other = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        world.spent.load(SeqCst)
    });
    yield_now().await;
    let burning: Vec<_> = (0..10).map(|_| run(&hook, "cut.example", CROWD)).collect();
    let before = other.await.unwrap();
    assert!(before <= 2, "{before} runs ended before");
    for run in burning {
        let (_, report) = run.await.unwrap();
        assert!(report.error.unwrap().contains("too much CPU time"));
    }
}

async fn cut(hook: &Hook<Fake>) {
    let (_, report) = report(hook, "cut.example").await;
    assert!(report.error.unwrap().contains("too much CPU time"));
}

fn assert_replaced(hook: &Hook<Fake>, times: u32) {
    let text = metrics(hook);
    let line = format!("hook_states_replaced_total {times}\n");
    assert!(text.contains(&line), "{text}");
}
