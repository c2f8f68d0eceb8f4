-- Reads what a record is, without what was answered, and when it ends.
-- KEYS: the record.
local found = redis.call('HMGET', KEYS[1], 'scope', 'operation', 'key', 'status', 'created_at', 'expires_at')
found[7] = redis.call('HSTRLEN', KEYS[1], 'header') + redis.call('HSTRLEN', KEYS[1], 'body')
found[8] = redis.call('PEXPIRETIME', KEYS[1])
found[9] = redis.call('HMGET', KEYS[1], 'token')[1]
return found
