//! Server with a script that has all faults, and hosts that must go on.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sekisho_testkit::RedisServer;
use serde_json::json;

use crate::hosting::{Host, Hosting};
use crate::server::Server;
use sekisho_bench::load::client::Client;
use sekisho_bench::tls::{Group, Offer, Trust, Version};

pub(super) struct Setting {
    pub(super) server: Server,
    hosting: Hosting,
    _redis: RedisServer,
    hangs: RedisServer,
    /// Server that takes connections and never answers.
    _silent: TcpListener,
}

impl Setting {
    pub(super) async fn new(binary: &Path) -> Result<Self> {
        let hosting = Hosting::new(binary).await?;
        let pages = hosting.pages();
        fs::write(pages.join("index.html"), "here")?;
        let (redis, hangs) = (RedisServer::start(), RedisServer::start());
        let script = pages.with_file_name("faults.luau");
        let silent = TcpListener::bind("127.0.0.1:0")?;
        let text = SCRIPT
            .replace("SILENT", &format!("http://{}/", silent.local_addr()?))
            .replace("REDIS", &format!("redis://127.0.0.1:{}", redis.port()))
            .replace("HANGS", &format!("redis://127.0.0.1:{}", hangs.port()));
        fs::write(&script, text)?;
        let hosts: Vec<_> = (0..HOT)
            .map(|number| Host {
                name: hot(number),
                tenant: "good".to_owned(),
                site: json!({ "root": pages }),
                also: Vec::new(),
            })
            .collect();
        hosting.put(&hosts).await?;
        let more = format!(
            "workers = 2\n[hook]\nscript = \"{}\"\ntimeout = \"1s\"",
            script.display()
        );
        for number in 0..HOT {
            hangs.set(&hot(number), &hot(number));
        }
        let server = hosting.serve(&more).await?;
        Ok(Self {
            server,
            hosting,
            _redis: redis,
            hangs,
            _silent: silent,
        })
    }

    /// Lets the Redis hang that half of the hosts come from.
    pub(super) fn hang(&self) {
        self.hangs.pause();
    }

    /// Returns how often `tls:cached` answered so.
    pub(super) async fn cached(&self, result: &str) -> Result<f64> {
        let metrics = self.server.metrics().await?;
        metrics.value(&format!("sekisho_hook_cached_total{{result=\"{result}\"}}"))
    }

    /// Returns the names that are visited while a fault is met.
    pub(super) fn hot(&self, over: Duration) -> Vec<String> {
        let count = PER_SECOND * usize::try_from(over.as_secs()).unwrap_or_default();
        (0..count).map(|number| hot(number % HOT)).collect()
    }

    pub(super) fn neighbour(&self) -> Result<Client> {
        self.client(69)
    }

    /// Makes a client with addresses in 127.NET.0.0/24.
    pub(super) fn client(&self, net: u8) -> Result<Client> {
        let offer = Offer {
            version: Version::Tls13,
            group: Group::X25519,
            trust: Trust::Authority(self.hosting.root()),
            resume: None,
        };
        let (address, _) = self.server.serving().context("it serves")?;
        Ok(Client::new(address, &offer, DEADLINE)?
            .sources(250)
            .in_net(net))
    }

    /// Returns how many runs of the hook had one of these ends.
    pub(super) async fn runs(&self, outcomes: &[&str]) -> Result<f64> {
        let metrics = self.server.metrics().await?;
        let one = |outcome: &&str| {
            metrics.value(&format!("sekisho_hook_runs_total{{outcome=\"{outcome}\"}}"))
        };
        outcomes.iter().map(one).sum()
    }

    pub(super) async fn end(self) -> Result<()> {
        self.hangs.resume();
        let server = &self.server;
        ensure!(server.pid().is_ok(), "the server ended:\n{}", server.tail());
        server.tell_to_end()?;
        server.ended().await
    }
}

fn hot(number: usize) -> String {
    format!("hot{number}.test")
}

const SCRIPT: &str = r#"
local certificates = redis("REDIS")
local hangs = redis("HANGS")

local held = 0

local function deeper(n)
    return 1 + deeper(n + 1)
end

local faults = {
    loop = function()
        while true do
        end
    end,
    pattern = function()
        local text = string.rep("a", 10000)
        while true do
            string.find(text, string.rep("a?", 100) .. "b")
        end
    end,
    bomb = function()
        local pieces = {}
        while true do
            pieces[#pieces + 1] = string.rep("x", 100000 + #pieces)
        end
    end,
    recursion = function()
        return deeper(0)
    end,
    error = function()
        error("this goes wrong on purpose")
    end,
    hang = function()
        hangs:get("a")
    end,
    hold = function()
        held += 1
        local text = string.rep("x", 12 * 2 ^ 20 + held)
        http.get("SILENT")
        log(#text)
    end,
    burn = function()
        while true do
        end
    end,
    random = function(tls)
        local name = tls.server_name
        local found = tls:cached(name, 60, function()
            local certificate, key = certificates:mget(name .. ".crt", name .. ".key")
            if certificate and key then
                tls:certificate(certificate)
                tls:certificate_key(key)
            end
        end)
        if not found then
            tls:refuse()
        end
    end,
}

-- Hosts that are visited: half of them come from the Redis that hangs later. The last
-- one is served past its limit. Runs of some wait for the other Redis each time.
function seen(tls, name)
    local number = tonumber(string.match(name, "^hot(%d+)%.test$"))
    if number and number % 4 == 0 then
        certificates:get(name)
    end
    if number and number % 2 == 1 then
        tls:cached(name, if number == 19 then 1 else 600, function()
            local host = hangs:get(name)
            if host then
                tls:use(host)
            end
        end)
    end
end

function handshake(tls)
    local name = tls.server_name
    local kind = name and string.match(name, "^(%a+)%d+%.faults%.test$")
    if kind then
        faults[kind](tls)
    elseif name then
        seen(tls, name)
    end
end
"#;

/// Hosts that are visited.
const HOT: usize = 20;
const PER_SECOND: usize = 100;
const DEADLINE: Duration = Duration::from_secs(20);
