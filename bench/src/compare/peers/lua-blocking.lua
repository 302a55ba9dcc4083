
-- Caches pairs in the worker, as sekisho does. An uncached pair is read from
-- Redis with LuaSocket, which blocks the worker for at most 2 s: sekisho's own
-- deadline for a store call.
local ssl = require "ngx.ssl"
local name = ssl.server_name()
local pair = pairs_of[name]
if not pair then
    local redis = held.redis
    if not redis then
        redis = require("socket").tcp()
        redis:settimeout(2)
        if not redis:connect("127.0.0.1", PORT) then
            return ngx.exit(ngx.ERROR)
        end
        held.redis = redis
    end
    local function value()
        local head = redis:receive("*l")
        local length = head and tonumber(head:match("^%$(%d+)"))
        local text = length and redis:receive(length)
        return text and redis:receive("*l") and text
    end
    local sent = redis:send("MGET " .. name .. ".crt " .. name .. ".key\r\n")
    local head = sent and redis:receive("*l")
    local chain = head and value()
    local key = chain and value()
    if not key then
        redis:close()
        held.redis = nil
        return ngx.exit(ngx.ERROR)
    end
    pair = { chain = ssl.parse_pem_cert(chain), key = ssl.parse_pem_priv_key(key) }
    pairs_of[name] = pair
end
ssl.clear_certs()
if not ssl.set_cert(pair.chain) or not ssl.set_priv_key(pair.key) then
    return ngx.exit(ngx.ERROR)
end
