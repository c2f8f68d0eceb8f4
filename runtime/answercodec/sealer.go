package answercodec

import (
	"crypto/aes"
	"crypto/cipher"
)

// keySize is that of data keys and of a Keyring's keys: AES-256.
const keySize = 32

// sealer is AES-256 in GCM. It makes nonces of 96 random bits, which lead what it
// seals.
type sealer struct{ gcm cipher.AEAD }

// newSealer returns the sealer of a key of keySize bytes.
func newSealer(key []byte) *sealer {
	block, err := aes.NewCipher(key)
	if err != nil { // the size was checked
		panic(err)
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil { // it takes any AES
		panic(err)
	}
	return &sealer{gcm}
}

// overhead is how many bytes seal adds.
func (s *sealer) overhead() int { return s.gcm.Overhead() }

// seal appends plain to dst, encrypted and bound to associated.
func (s *sealer) seal(dst, plain, associated []byte) []byte {
	return s.gcm.Seal(dst, nil, plain, associated) //nolint:gosec // no constant nonce: it makes one
}

// open returns what was sealed.
func (s *sealer) open(sealed, associated []byte) ([]byte, error) {
	return s.gcm.Open(nil, nil, sealed, associated)
}
