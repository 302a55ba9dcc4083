-- Moves `upto` on: drops what changed and remembers when.
-- KEYS: the state. ARGV: prefix, the number behind which the changes begin,
-- that of the last, how many are remembered, how long the state is kept (ms),
-- the generation that the teller knows, the mark of the last change; then
-- subjects and the numbers of their last changes in turn.
local upto = redis.call('ZSCORE', KEYS[1], 'upto')
if not upto then return 'none' end
if redis.call('ZRANGE', KEYS[1], 0, 0)[1] ~= ARGV[6] then return 'behind' end
upto = tonumber(upto)
if upto >= tonumber(ARGV[3]) then return 'done' end
if upto < tonumber(ARGV[2]) then return 'behind' end
for i = 8, #ARGV, 2 do
  redis.call('ZADD', KEYS[1], ARGV[i + 1], ARGV[i])
  redis.call('DEL', ARGV[1] .. ARGV[i])
end
-- Four members are no subjects: generation, `upto`, `floor`, mark.
local excess = redis.call('ZCARD', KEYS[1]) - 4 - tonumber(ARGV[4])
if excess > 0 then
  local cut = redis.call('ZRANGEBYSCORE', KEYS[1], '(-inf', '+inf', 'WITHSCORES', 'LIMIT', excess, 1)
  -- The floor first: loads below it are refused before the subjects that
  -- changed since they began are gone.
  redis.call('ZADD', KEYS[1], cut[2], 'floor')
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '(-inf', '(' .. cut[2])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '+inf', '+inf')
redis.call('ZADD', KEYS[1], ARGV[3], 'upto', '+inf', ARGV[7])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 'done'
