package main

const overview = `idemctl looks after the records of idempotent requests.

Usage: idemctl <command> [flags]

  schema    prints what creates the table; connects to nothing
  list      prints records, without what they hold
  show      prints one record
  release   deletes a record, so that the next request with its key runs
  sweep     deletes records whose retention is over
  stats     counts records
  version   prints the version of idemctl
  help      prints this, or the help of a command: idemctl help list

` + storeHelp

//nolint:gosec // it says where credentials stand, and holds none
const storeHelp = `The store is a URL, given by -store or better by the environment variable
IDEMCTL_STORE, since other users of a machine can see command lines:

  postgres://USER:PASSWORD@HOST:5432/DATABASE      with all settings of pgx
  mysql://USER:PASSWORD@HOST:3306/DATABASE         with all of go-sql-driver;
                                                   also mariadb://
  sqlite:FILE                                      a path, absolute or not
  redis://USER:PASSWORD@HOST:6379/0                with all of go-redis;
                                                   rediss:// with TLS
      ?cluster=true          a Redis Cluster; HOST is any of its nodes
      ?sentinel=NAME         HOST is a sentinel, NAME the master's name
      &addr=HOST:PORT        another node or sentinel; may be repeated
      &sentinel_username=    the sentinels' own user,
      &sentinel_password=    if they have one
      &prefix=PREFIX         of redisstore.WithPrefix
      &hash_tag=TAG          what redisstore.WithHashTag returns for a record
  dynamodb://TABLE?region=REGION                   credentials as AWS's tools
      &endpoint=URL          of an emulator
      &profile=NAME          of AWS's configuration files
      &prefix=PREFIX         of dynamostore.WithPrefix

The user needs the rights that the server's has; list and stats also need SCAN on
Redis and Scan on DynamoDB. Exit codes: 0 done; 1 not found, refused or not
confirmed; 2 wrong usage, interrupted, or the store failed.
`

const storeFlags = `
  -store URL      the store; the default is $IDEMCTL_STORE
  -table NAME     the table of a SQL store; the default is idempotency_records
  -json           print JSON for scripts, times in UTC
`

const timeoutFlag = `  -timeout D      give up after D, 0 never; the default is 30s
`

const selectFlags = `
  -scope S        what the server's scope function returns, as list prints it
  -operation O    the operation
`

const schemaHelp = `Usage: idemctl schema [flags]

Prints what creates the table: SQL, commands of the AWS CLI, or for Redis, where
there is nothing to create, the settings that the server needs.

  -store KIND     postgres, mysql, sqlite, dynamodb or redis, or a store's URL; the
                  default is $IDEMCTL_STORE
  -table NAME     the table's name; the default is idempotency_records, and on
                  DynamoDB the URL's, or idempotency
  -partitioned    PostgreSQL: partitioned by the time of UUIDv7 keys
`

const listHelp = `Usage: idemctl list [flags]

Lists records, in an order of the store's own, without headers and bodies, and
with a part of each key: the id picks a record in show and release. A claim in
transaction mode is a lock on SQL stores, and not listed.

States: answer (stored, replayed), claim (in flight), passed (a claim whose lease
has passed: the next request takes it over), expired (its retention is over: a
sweep deletes it).
` + selectFlags + `  -state S        answer, claim, passed or expired; any is the default
  -limit N        stop after N records; the default is 100, 0 lists all
  -keys           print keys whole
` + storeFlags + timeoutFlag

const showHelp = `Usage: idemctl show [flags] ID
       idemctl show [flags] -scope S -operation O -key K

Shows one record. What was answered is shown with -body alone.
` + selectFlags + `  -key K          the idempotency key
  -keys           print the key whole
  -body           print the answer's headers and body
` + storeFlags + timeoutFlag

const releaseHelp = `Usage: idemctl release [flags] ID
       idemctl release [flags] -scope S -operation O -key K

Deletes a record, so that the next request with its key runs. It asks before it
does so, unless -yes is given. If that request was carried out, its effects happen
a second time: release a stored answer only when the effects have been undone.

A live claim is released with -force alone. The attempt that holds it may still be
at work and may still make its effects; the next request makes them too, so that
they can happen twice. What the attempt answers is not stored any more (in lease
mode its completion is refused). A claim that is the lock of a running transaction
cannot be released: end the transaction in the database.
` + selectFlags + `  -key K          the idempotency key
  -yes            do not ask
  -force          release a live claim too
` + storeFlags + timeoutFlag

const sweepHelp = `Usage: idemctl sweep [flags]

Deletes the records whose retention is over, in batches. Servers may go on. One
sweeper works at a time; a second one deletes nothing. An interrupt ends it after
the batch, a second one at once. Redis and DynamoDB delete records by themselves.

  -dry-run        count them only; reads all records
` + storeFlags + `  -timeout D      give up after D; the default is 0, never
`

const statsHelp = `Usage: idemctl stats [flags]

Counts the records of each operation. It reads all records once, without locks: on
a big table give it time (-timeout), and mind what a scan costs on DynamoDB.
` + storeFlags + timeoutFlag
