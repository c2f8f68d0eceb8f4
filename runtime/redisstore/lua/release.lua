-- Deletes a stored record or a claim, if it is still the one that was read, and
-- answers what else is there: a claim, an answer, or '' for nothing.
-- KEYS: the record. ARGV: its token, and whether it was an answer or a claim.
-- One that is sent again finds nothing, and deletes no later record.
local found = redis.call('HMGET', KEYS[1], 'token', 'status')
local kind = found[2] and 'answer' or 'claim'
if found[1] and (found[1] ~= ARGV[1] or kind ~= ARGV[2]) then
  return kind
end
redis.call('DEL', KEYS[1])
return ''
