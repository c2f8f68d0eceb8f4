package redisstore

import (
	_ "embed" // the scripts

	"github.com/redis/go-redis/v9"
)

// The scripts run by their hash: one round trip, and a second one where the
// server does not know them yet.
var (
	//go:embed lua/claim.lua
	claimSource string
	//go:embed lua/extend.lua
	extendSource string
	//go:embed lua/complete.lua
	completeSource string
	//go:embed lua/confirm.lua
	confirmSource string
	//go:embed lua/abandon.lua
	abandonSource string
	//go:embed lua/lookup.lua
	lookupSource string
	//go:embed lua/release.lua
	releaseSource string
	//go:embed lua/entry.lua
	entrySource string

	claimScript    = redis.NewScript(claimSource)
	extendScript   = redis.NewScript(extendSource)
	completeScript = redis.NewScript(completeSource)
	confirmScript  = redis.NewScript(confirmSource)
	abandonScript  = redis.NewScript(abandonSource)
	lookupScript   = redis.NewScript(lookupSource)
	releaseScript  = redis.NewScript(releaseSource)
	entryScript    = redis.NewScript(entrySource)
)
