package answercodec

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// The formats: each bit says what was done.
const (
	deflated  = 1 // the data is a checksum, and the answer's size and DEFLATE stream
	encrypted = 2 // the data is the wrapped data key, length-framed, and the sealed answer
)

// Codec compresses and encrypts the answers of a store. It reads all formats of
// this package whatever it writes, as far as it has the keys. It is safe for
// concurrent use and has nothing to close.
type Codec struct {
	cfg      config
	deflater deflater
	keys     *dataKeys // nil without encryption
}

var _ idempotency.Codec = (*Codec)(nil)

// New returns a codec that does what opts say: [WithCompression],
// [WithEncryption], or both. With encryption it makes a first data key, and
// returns an error if that cannot be wrapped and unwrapped again; one with
// [WithReadOnly] needs no right to wrap, and is not tried.
func New(ctx context.Context, opts ...Option) (*Codec, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	c := &Codec{cfg: cfg, deflater: deflater{limit: cfg.limit}}
	if cfg.keys != nil {
		c.keys = &dataKeys{keys: cfg.keys, age: cfg.age, logger: cfg.logger, unwrapped: make(map[string]*call[*sealer])}
		if !cfg.readOnly {
			err = c.keys.check(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// ReadsPlain implements [idempotency.Codec].
func (c *Codec) ReadsPlain() bool { return !c.cfg.encryptedOnly }

// Encode implements [idempotency.Codec].
func (c *Codec) Encode(ctx context.Context, binding, answer []byte) (idempotency.Encoded, error) {
	if c.cfg.readOnly {
		return idempotency.Encoded{}, nil
	}
	e := idempotency.Encoded{Data: answer}
	if c.cfg.compress {
		if small, ok := c.deflater.deflate(answer); ok {
			e = idempotency.Encoded{Format: deflated, Data: small}
		}
	}
	switch {
	case c.keys != nil:
		return c.seal(ctx, binding, e)
	case e.Format == deflated:
		e.Data = append(checksum(binding, answer), e.Data...)
		return e, nil
	}
	return idempotency.Encoded{}, nil
}

// Decode implements [idempotency.Codec].
func (c *Codec) Decode(ctx context.Context, binding []byte, e idempotency.Encoded) ([]byte, error) {
	switch e.Format {
	case deflated:
		return c.decompress(binding, e)
	case encrypted:
		return c.open(ctx, binding, e)
	case encrypted | deflated:
		small, err := c.open(ctx, binding, e)
		if err != nil {
			return nil, err
		}
		return c.deflater.inflate(small)
	}
	return nil, errors.New("answercodec: the format is none that this version knows; it was stored by a newer one, or by another codec")
}

// decompress reads an answer that is not encrypted.
func (c *Codec) decompress(binding []byte, e idempotency.Encoded) ([]byte, error) {
	if c.cfg.encryptedOnly {
		return nil, errors.New("answercodec: the answer is not encrypted, and WithEncryptedOnly refuses that")
	}
	if len(e.Data) < crc32.Size {
		return nil, errDeflated
	}
	sum, small := e.Data[:crc32.Size], e.Data[crc32.Size:]
	answer, err := c.deflater.inflate(small)
	if err == nil && !bytes.Equal(sum, checksum(binding, answer)) {
		err = errDeflated
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum finds damage, which DEFLATE does not. It keeps nobody from anything.
func checksum(binding, answer []byte) []byte {
	sum := crc32.Update(crc32.Checksum(binding, castagnoli), castagnoli, answer)
	return binary.BigEndian.AppendUint32(nil, sum)
}

// seal encrypts the data of e.
func (c *Codec) seal(ctx context.Context, binding []byte, e idempotency.Encoded) (idempotency.Encoded, error) {
	key, err := c.keys.toWrite(ctx)
	if err != nil {
		return idempotency.Encoded{}, err
	}
	e.Format |= encrypted
	e.KeyID = key.keyID
	data := make([]byte, 0, binary.MaxVarintLen64+len(key.wrapped)+len(e.Data)+key.overhead())
	data = appendFramed(data, key.wrapped)
	e.Data = key.seal(data, e.Data, associated(e.Format, e.KeyID, data, binding))
	return e, nil
}

// open decrypts the data of e.
func (c *Codec) open(ctx context.Context, binding []byte, e idempotency.Encoded) ([]byte, error) {
	if c.keys == nil {
		return nil, fmt.Errorf("%w: the codec has no keys; give it WithEncryption", ErrUnknownKey)
	}
	length, n := binary.Uvarint(e.Data)
	if n <= 0 || length > uint64(len(e.Data)-n) {
		return nil, errSealed
	}
	end := n + int(length)
	key, err := c.keys.toRead(ctx, e.KeyID, e.Data[n:end])
	if err != nil {
		return nil, err
	}
	answer, err := key.open(e.Data[end:], associated(e.Format, e.KeyID, e.Data[:end], binding))
	if err != nil {
		return nil, errSealed
	}
	return answer, nil
}

var errSealed = errors.New("answercodec: the encrypted answer was changed, or put in the place of another")

// associated is what an answer is sealed with, so that nothing of it can be
// changed: length-framed, and the same in every release.
func associated(format byte, keyID string, wrapped, binding []byte) []byte {
	b := make([]byte, 0, 1+2*binary.MaxVarintLen64+len(keyID)+len(wrapped)+len(binding))
	b = append(b, format)
	b = appendFramed(b, []byte(keyID))
	b = append(b, wrapped...) // framed already
	return append(b, binding...)
}

func appendFramed(b, part []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}
