-- What answers a name, exactly as it stood at the number `upto`.
-- KEYS: the state. ARGV: prefix, least number, pattern, wildcard above or '',
-- the generation that the reader knows.
local upto = redis.call('ZSCORE', KEYS[1], 'upto')
if not upto then return {'none'} end
if tonumber(upto) < tonumber(ARGV[2]) then return {'behind'} end
local generation = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
if generation ~= ARGV[5] then return {'behind'} end
local function value(key)
  local found = redis.pcall('GET', ARGV[1] .. key)
  if type(found) == 'string' and found:sub(1, #generation) == generation then
    return found:sub(#generation + 1)
  end
end
local host = value('h:' .. ARGV[3])
if not host and ARGV[4] ~= '' then
  -- Only wildcards without exact records below them are kept.
  host = value('h:' .. ARGV[4])
end
if not host then return {'miss'} end
local answer = {'host', host}
for i = 1, tonumber(host:sub(1, 1)) or 0 do
  local credential = value('c:' .. host:sub(16 * i - 14, 16 * i + 1))
  if not credential then return {'miss'} end
  answer[i + 2] = credential
end
return answer
