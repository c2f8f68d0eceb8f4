package answercodec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/idemgen/idemgen/runtime/answercodec"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// secret is what a deployment hands over: 32 random bytes for each key.
var secret = map[string][]byte{
	"2026-10": bytes.Repeat([]byte{0x10}, 32),
	"2026-11": bytes.Repeat([]byte{0x11}, 32),
}

// A store keeps answers compressed and encrypted. It writes with the newer key,
// and reads what was written with the older one.
func Example() {
	ctx := context.Background()
	keys, err := answercodec.NewKeyring("2026-11", secret)
	if err != nil {
		panic(err)
	}
	codec, err := answercodec.New(ctx, answercodec.WithEncryption(keys), answercodec.WithCompression())
	if err != nil {
		panic(err)
	}
	store := memstore.New(memstore.WithCodec(codec))

	req := idempotency.Request{
		Identity:    idempotency.Identity{Scope: "tenant", Operation: "createPayment", Key: "k"},
		Fingerprint: idempotency.FingerprintOf([]byte("250 EUR")),
		Retention:   24 * time.Hour,
	}
	for range 2 {
		res, err := store.Execute(ctx, req, func(context.Context, struct{}) (idempotency.Response, error) {
			return idempotency.Response{Status: http.StatusCreated, Body: []byte("paid")}, nil
		})
		fmt.Printf("%s, replayed: %v, %v\n", res.Body, res.Replayed, err)
	}
	// Output:
	// paid, replayed: false, <nil>
	// paid, replayed: true, <nil>
}

// KMS is what a key management service's client offers, in whatever form.
type KMS interface {
	Encrypt(ctx context.Context, keyID string, plain []byte) (sealed []byte, err error)
	Decrypt(ctx context.Context, keyID string, sealed []byte) (plain []byte, err error)
}

// RemoteKeys has data keys wrapped by a key management service, which keeps its
// keys to itself. Older keys stay there for as long as answers under them are
// kept.
type RemoteKeys struct {
	KMS     KMS
	Current string // the id of the key to write with
}

// Wrap implements [answercodec.Keys].
func (k RemoteKeys) Wrap(ctx context.Context, dataKey []byte) (string, []byte, error) {
	wrapped, err := k.KMS.Encrypt(ctx, k.Current, dataKey)
	return k.Current, wrapped, err
}

// Unwrap implements [answercodec.Keys].
func (k RemoteKeys) Unwrap(ctx context.Context, keyID string, wrapped []byte) ([]byte, error) {
	dataKey, err := k.KMS.Decrypt(ctx, keyID, wrapped)
	if errors.Is(err, errNoSuchKey) { // in the words of the service
		return nil, fmt.Errorf("%w: %w", answercodec.ErrUnknownKey, err)
	}
	return dataKey, err
}

var errNoSuchKey = errors.New("no such key")

// A key management service that cannot be used is found when the server starts.
func ExampleKeys() {
	keys := RemoteKeys{KMS: locked{}, Current: "arn:key/answers"}
	_, err := answercodec.New(context.Background(), answercodec.WithEncryption(keys))
	fmt.Println(err)
	// Output:
	// answercodec: no data key could be had: access denied
}

// locked lets nobody in.
type locked struct{}

func (locked) Encrypt(context.Context, string, []byte) ([]byte, error) {
	return nil, errors.New("access denied")
}

func (locked) Decrypt(context.Context, string, []byte) ([]byte, error) {
	return nil, errors.New("access denied")
}
