// Package testcodec has the codec that stores are tested with.
package testcodec

import (
	"testing"

	"github.com/idemgen/idemgen/runtime/answercodec"
)

// Encrypting returns a codec that compresses, encrypts, and reads nothing else.
func Encrypting(t testing.TB) *answercodec.Codec {
	t.Helper()
	keys, err := answercodec.NewKeyring("1", map[string][]byte{"1": make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := answercodec.New(t.Context(), answercodec.WithEncryption(keys), answercodec.WithCompression(), answercodec.WithEncryptedOnly())
	if err != nil {
		t.Fatal(err)
	}
	return c
}
