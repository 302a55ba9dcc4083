-- Which generation there is, and how far it is; nothing if there is none.
-- KEYS: the state.
local upto = redis.call('ZSCORE', KEYS[1], 'upto')
if not upto then return {} end
return {redis.call('ZRANGE', KEYS[1], 0, 0)[1], upto}
