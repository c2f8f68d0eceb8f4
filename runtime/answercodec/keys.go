package answercodec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Keys holds key-encryption keys, of which one is the current: a key management
// service, or a [Keyring]. It must be safe for concurrent use. Calls are rare,
// see the package comment, and each must end within 5 s. A call that panics has
// failed.
type Keys interface {
	// Wrap encrypts a data key of 32 bytes with the current key, and returns the
	// id of that: 1 to 255 bytes, stored and logged in plain.
	Wrap(ctx context.Context, dataKey []byte) (keyID string, wrapped []byte, err error)
	// Unwrap returns the data key that was wrapped under keyID. It returns an
	// error that matches [ErrUnknownKey] for a key that it does not have, and
	// must not return a data key that it has not wrapped.
	Unwrap(ctx context.Context, keyID string, wrapped []byte) (dataKey []byte, err error)
}

// ErrUnknownKey says that a key-encryption key is not at hand.
var ErrUnknownKey = errors.New("answercodec: the key is not at hand; keep each key for as long as answers under it are kept, and give it to all replicas before the first one writes with it")

// Keyring holds key-encryption keys in memory, for deployments that have their
// secrets from elsewhere. It writes with one and reads with all.
type Keyring struct {
	current string
	keys    map[string]*sealer
}

var _ Keys = (*Keyring)(nil)

// NewKeyring returns a ring of keys by id, of which current is written with.
// Each has 32 bytes of randomness, such as from "openssl rand 32": a password is
// none. An id has 1 to 64 bytes of visible ASCII and says nothing secret, such as
// the date from which on the key was used.
func NewKeyring(current string, keys map[string][]byte) (*Keyring, error) {
	r := &Keyring{current: current, keys: make(map[string]*sealer, len(keys))}
	for _, id := range slices.Sorted(maps.Keys(keys)) {
		if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(c rune) bool { return c < '!' || c > '~' }) {
			return nil, fmt.Errorf("answercodec: the key's id %q is not 1 to 64 bytes of visible ASCII", id)
		}
		if len(keys[id]) != keySize {
			return nil, fmt.Errorf("answercodec: the key %q has %d bytes, and must have %d", id, len(keys[id]), keySize)
		}
		r.keys[id] = newSealer(keys[id])
	}
	if r.keys[current] == nil {
		return nil, fmt.Errorf("answercodec: the current key %q is not among the %d keys of the ring", current, len(keys))
	}
	return r, nil
}

// Wrap implements [Keys].
func (r *Keyring) Wrap(_ context.Context, dataKey []byte) (keyID string, wrapped []byte, err error) {
	return r.current, r.keys[r.current].seal(nil, dataKey, wrapping(r.current)), nil
}

// Unwrap implements [Keys].
func (r *Keyring) Unwrap(_ context.Context, keyID string, wrapped []byte) ([]byte, error) {
	key := r.keys[keyID]
	if key == nil {
		return nil, fmt.Errorf("%w; the ring has %q", ErrUnknownKey, slices.Sorted(maps.Keys(r.keys)))
	}
	dataKey, err := key.open(wrapped, wrapping(keyID))
	if err != nil {
		return nil, fmt.Errorf("answercodec: the data key was not wrapped by the key %q, or was changed", keyID)
	}
	return dataKey, nil
}

// wrapping is the associated data of a data key that a Keyring wraps: nothing
// else that the same key may have encrypted is taken for one.
func wrapping(keyID string) []byte {
	return []byte("idemgen answercodec data key, wrapped by " + keyID)
}
