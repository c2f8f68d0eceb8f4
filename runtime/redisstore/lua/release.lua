-- Deletes a stored record or a claim, if it is still the one that was read.
-- KEYS: the record. ARGV: its token, and whether it was an answer or a claim.
-- One that is sent again finds nothing, and deletes no later record.
local found = redis.call('HMGET', KEYS[1], 'token', 'status')
if found[1] and (found[1] ~= ARGV[1] or (found[2] and 'answer' or 'claim') ~= ARGV[2]) then
  return 'changed'
end
redis.call('DEL', KEYS[1])
return 'released'
