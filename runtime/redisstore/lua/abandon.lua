-- Gives a claim up, and answers what became of it: freed, or done where the
-- answer is stored, or gone.
-- KEYS: the record. ARGV: token.
local found = redis.call('HMGET', KEYS[1], 'token', 'status')
if found[1] ~= ARGV[1] then
  return 'gone'
end
if found[2] then
  return 'done'
end
redis.call('DEL', KEYS[1])
return 'freed'
