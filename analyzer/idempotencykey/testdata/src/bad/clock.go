package bad

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"shop/api"

	"github.com/google/uuid"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

func nanoseconds(order string) (api.CreatePaymentIdempotencyKey, error) {
	return api.ParseCreatePaymentIdempotencyKey(order + "-" + strconv.FormatInt(time.Now().UnixNano(), 10)) // want `this key is made from the clock`
}

func contentAndMinute(user string, amount int64) api.CreatePaymentIdempotencyKey {
	now := time.Now().UTC()
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s|%d|%s", user, amount, now.Format("200601021504"))))
	return idempotency.MustParseKey[api.CreatePaymentOp](hex.EncodeToString(sum[:])) // want `this key is made from the clock`
}

func fiveMinutes(user string) api.CreatePaymentIdempotencyKey {
	bucket := time.Now().Truncate(5 * time.Minute)
	return idempotency.MustParseKey[api.CreatePaymentOp](fmt.Sprint(user, bucket.Unix())) // want `this key is made from the clock`
}

func layout() api.CreatePaymentIdempotencyKey {
	return idempotency.MustParseKey[api.CreatePaymentOp](time.Now().Format(time.RFC3339)) // want `this key is made from the clock`
}

func hashed(space uuid.UUID) api.CreatePaymentIdempotencyKey {
	return idempotency.MustParseKey[api.CreatePaymentOp](uuid.NewSHA1(space, []byte(time.Now().String())).String()) // want `this key is made from the clock`
}

var atStart = idempotency.MustParseKey[api.CreatePaymentOp](fmt.Sprint(time.Now().Unix())) // want `this key is made from the clock`
