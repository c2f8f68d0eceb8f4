-- Deletes a stored record, if it is still the one that was read.
-- KEYS: the record. ARGV: its token.
-- One that is sent again finds nothing, and deletes no later record.
local found = redis.call('HGET', KEYS[1], 'token')
if found and found ~= ARGV[1] then
  return 'changed'
end
redis.call('DEL', KEYS[1])
return 'released'
