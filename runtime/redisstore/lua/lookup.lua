-- Reads a record or a claim. A script, because scripts are never sent to a
-- replica.
-- KEYS: the record.
return redis.call('HMGET', KEYS[1], 'token', 'status',
  'scope', 'operation', 'key', 'fingerprint', 'header', 'body', 'created_at', 'expires_at')
