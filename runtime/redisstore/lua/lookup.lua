-- Reads a record. A script, because scripts are never sent to a replica.
-- KEYS: the record.
return redis.call('HMGET', KEYS[1], 'status',
  'scope', 'operation', 'key', 'fingerprint', 'header', 'body', 'created_at', 'expires_at')
