-- Stores the answer and applies the commands that work has queued: all of it or
-- nothing. Nobody sees a state in between, since a script runs alone.
-- KEYS: the record, then the keys of all commands in order.
-- ARGV: token, how the record came to be ('claimed', or 'new' if this script
-- makes it), retention in ms, fingerprint, status, header, body; then for each
-- command how many keys and how many arguments it has, and the arguments.
local record = KEYS[1]
local found = redis.call('HMGET', record, 'token', 'status', 'expires_at')
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
if found[1] ~= ARGV[1] and (ARGV[2] == 'claimed' or found[1]) then
  return {'lost'}
end
if found[2] then
  -- By this same script, whose answer was lost. WAIT waits for what its own
  -- connection has written, so there is something written.
  redis.call('PEXPIRE', record, found[3] - now)
  return {'done'}
end

-- A script that fails keeps what it has done. So it does nothing unless its own
-- commands are allowed; memory is refused to the first of them, or to none.
local function forbidden(commands)
  for _, command in ipairs(commands) do
    if not redis.acl_check_cmd(unpack(command)) then
      return command[1]
    end
  end
end
local own = forbidden({{'HSET', record, 'token', ''}, {'PEXPIRE', record, '0'}, {'DEL', record}})
if own then
  return redis.error_reply('NOPERM the store needs the permission to run ' .. own)
end

-- Where each command begins in ARGV.
local commands = {}
local at = 8
while at <= #ARGV do
  commands[#commands + 1] = at
  at = at + 2 + ARGV[at + 1]
end

-- A queued command that fails has done nothing, but Redis keeps what those
-- before it did. So the keys of all but the last are saved before anything is
-- written. That all KEYS may be read and written was checked when this script
-- began.
local saved = {}
if #commands > 1 then
  local undo = forbidden({{'DUMP', record}, {'PEXPIRETIME', record}, {'RESTORE', record, '0', ''}})
  if undo then
    redis.call('DEL', record)
    return {'failed', 1, 'NOPERM more than one command needs the permission to run ' .. undo ..
      ', to undo them if a later one fails'}
  end
  local last = #KEYS - ARGV[commands[#commands]]
  for k = 2, last do
    local key = KEYS[k]
    saved[key] = saved[key] or {dump = redis.call('DUMP', key), expires = redis.call('PEXPIRETIME', key)}
  end
end

redis.call('HSET', record, 'token', ARGV[1], 'status', ARGV[5],
  'fingerprint', ARGV[4], 'header', ARGV[6], 'body', ARGV[7],
  'created_at', string.format('%.0f', now), 'expires_at', string.format('%.0f', now + ARGV[3]))
redis.call('PEXPIRE', record, ARGV[3])

for i, at in ipairs(commands) do
  local reply = redis.pcall(unpack(ARGV, at + 2, at + 1 + ARGV[at + 1]))
  if type(reply) == 'table' and reply.err then
    for key, was in pairs(saved) do
      redis.call('DEL', key)
      if was.dump then
        redis.call('RESTORE', key, math.max(was.expires, 0), was.dump, 'ABSTTL')
      end
    end
    redis.call('DEL', record)
    return {'failed', i, reply.err}
  end
end
return {'done'}
