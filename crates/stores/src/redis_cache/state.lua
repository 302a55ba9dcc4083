-- Which generation there is, how far it is, and its last member, which is the
-- mark of the change `upto`; nothing if there is none.
-- KEYS: the state.
local upto = redis.call('ZSCORE', KEYS[1], 'upto')
if not upto then return {} end
local mark = redis.call('ZRANGE', KEYS[1], -1, -1)[1]
return {redis.call('ZRANGE', KEYS[1], 0, 0)[1], upto, mark}
