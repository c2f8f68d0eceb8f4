-- Extends a claim's lease, counted from now.
-- KEYS: the record. ARGV: token, lease in ms.
local found = redis.call('HMGET', KEYS[1], 'token', 'status')
if found[1] ~= ARGV[1] or found[2] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
