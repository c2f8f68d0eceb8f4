-- Claims a record, or answers what stands in its way.
-- KEYS: the record. ARGV: token, lease in ms, scope, operation, key.
-- A claim that is sent again finds its own token and holds.
local found = redis.call('HMGET', KEYS[1], 'token', 'status',
  'scope', 'operation', 'key', 'fingerprint', 'header', 'body', 'created_at', 'expires_at')
if found[2] then
  return {'record', unpack(found)}
end
if found[1] and found[1] ~= ARGV[1] then
  return {'held'}
end
if not redis.acl_check_cmd('PEXPIRE', KEYS[1], ARGV[2]) then
  -- The claim would never end.
  return redis.error_reply('NOPERM the store needs the permission to run PEXPIRE')
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'scope', ARGV[3], 'operation', ARGV[4], 'key', ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local now = redis.call('TIME')
return {'claimed', now[1] * 1000 + math.floor(now[2] / 1000)}
