-- Takes what a load read, unless something of it changed since the load began.
-- KEYS: the state. ARGV: prefix, the number seen before the load began, the
-- newest version in it, how long it is kept, and the state (ms), the generation
-- known before the load began; then subjects and values in turn.
local upto = redis.call('ZSCORE', KEYS[1], 'upto')
local floor = redis.call('ZSCORE', KEYS[1], 'floor')
if not upto or not floor then return 'none' end
local generation = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
if generation ~= ARGV[6] then return 'refused' end
local seen = tonumber(ARGV[2])
if seen < tonumber(floor) or tonumber(ARGV[3]) > tonumber(upto) then return 'refused' end
for i = 7, #ARGV, 2 do
  local changed = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if changed and tonumber(changed) > seen then return 'refused' end
end
for i = 7, #ARGV, 2 do
  redis.call('SET', ARGV[1] .. ARGV[i], generation .. ARGV[i + 1], 'PX', ARGV[4])
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 'done'
