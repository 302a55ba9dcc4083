-- Begins a generation, in which nothing of an earlier one can be read.
-- KEYS: the state. ARGV: the generation that it takes the place of or '', its
-- own name, the number at which it begins, how long the state is kept
-- (ms), the mark of the change with that number.
local there = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
if (there or '') ~= ARGV[1] then return 'other' end
redis.call('DEL', KEYS[1])
redis.call('ZADD', KEYS[1], '-inf', ARGV[2], ARGV[3], 'floor', ARGV[3], 'upto', '+inf', ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 'done'
