package main

import "strings"

// words are what stores and drivers say to those who write a server in Go, and the
// same for those who write a URL. The first that fits is taken.
var words = []string{
	"choose another name with pgxstore.WithTable", "choose another one by -table",
	"choose another name with sqlstore.WithTable", "choose another one by -table",
	"the pool must be able to write: was the reader of WithReader passed in its place? Leave query_only and mode=ro out of its data source name, and let the process write", "let this process write",
	"pgxstore: WithTable: ", "",
	"the data source name", "the store's URL",
	"see the package's documentation", "see https://github.com/idemgen/idemgen/blob/main/docs/migrations.md#rights",

	"use redis.NewClusterClient", "add cluster=true to the store's URL",
	"use redis.NewClient, or redis.NewFailoverClient", "leave cluster=true out of the store's URL",
	"use redis.NewFailoverClient", "add sentinel= to the store's URL, with the name of the master",
	"set Username and Password in its options", "the store's URL has them as USER:PASSWORD@ before the host",
	"check the addresses in the client's options, and its TLSConfig", "check hosts and ports in the store's URL, " +
		"which begins with rediss:// where the server speaks TLS and with redis:// where it does not",
	"redis: all sentinels specified in configuration are unreachable: redis: nil", "no sentinel knows a master of this name: check sentinel= in the store's URL",
	"redis: all sentinels specified in configuration are unreachable", "no sentinel names the master; " +
		"where sentinels have a user of their own, the store's URL has sentinel_username= and sentinel_password=",

	"the store has no codec; give it the one that the answer was stored with, by WithCodec", "idemctl has no codecs; " +
		"a server that has the one of this answer replays it",
}

var inWordsOfURLs = strings.NewReplacer(words...)
