-- Gives a claim up.
-- KEYS: the record. ARGV: token.
local found = redis.call('HMGET', KEYS[1], 'token', 'status')
if found[1] ~= ARGV[1] or found[2] then
  return 0
end
return redis.call('DEL', KEYS[1])
