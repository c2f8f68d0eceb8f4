-- Deletes a stored record, unless it belongs to another identity.
-- KEYS: the record. ARGV: scope, operation, key.
local found = redis.call('HMGET', KEYS[1], 'status', 'scope', 'operation', 'key')
if found[2] ~= ARGV[1] or found[3] ~= ARGV[2] or found[4] ~= ARGV[3] then
  return 'none'
end
if not found[1] then
  return 'held'
end
redis.call('DEL', KEYS[1])
return 'released'
