-- Writes the time to live of a stored answer again, as it is: WAIT waits for what
-- its own connection has written, so there is something written.
-- KEYS: the record. ARGV: its token.
local found = redis.call('HMGET', KEYS[1], 'token', 'status', 'expires_at')
if found[1] ~= ARGV[1] or not found[2] then
  return {'gone'}
end
local now = redis.call('TIME')
redis.call('PEXPIRE', KEYS[1], found[3] - (now[1] * 1000 + math.floor(now[2] / 1000)))
return {'done'}
