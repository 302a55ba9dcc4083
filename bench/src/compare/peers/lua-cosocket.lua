
-- Reads the pair of each handshake from Redis with cosockets, which do not block the worker:
-- a read waits for at most 2 s, sekisho's own deadline for a store call, and connections are
-- kept. With `held`, an LRU cache, the worker remembers what it parsed.
local ssl = require "ngx.ssl"
local name = ssl.server_name()
local pair = held and held:get(name)
if not pair then
    local redis = require("nginx.redis"):new()
    redis:set_timeout(2000)
    local texts = redis:connect("127.0.0.1", PORT) and redis:mget(name .. ".crt", name .. ".key")
    if not texts or texts[1] == ngx.null or texts[2] == ngx.null then
        return ngx.exit(ngx.ERROR)
    end
    redis:set_keepalive(60000, 100)
    pair = { chain = ssl.parse_pem_cert(texts[1]), key = ssl.parse_pem_priv_key(texts[2]) }
    if held then
        held:set(name, pair)
    end
end
ssl.clear_certs()
if not ssl.set_cert(pair.chain) or not ssl.set_priv_key(pair.key) then
    return ngx.exit(ngx.ERROR)
end
