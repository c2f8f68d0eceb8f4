package idempotency

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Codec changes the form in which a store keeps answers: it compresses or
// encrypts their header fields and bodies. Every store takes one by its option
// WithCodec; package answercodec has that of this module. Identity, fingerprint,
// status and times stay as they are, and readable.
//
// A codec must be safe for concurrent use.
type Codec interface {
	// Encode returns the form in which answer is to be stored, or the zero
	// Encoded to store it as it is. Binding says whose answer it is: identity,
	// fingerprint and status. If Encode fails, the effects of work are rolled
	// back; under a [Lease], whose effects lie elsewhere, it is tried again for
	// 5 s. It runs in the transaction of work, which holds locks: a call to
	// another system does not belong here unless it is rare.
	Encode(ctx context.Context, binding, answer []byte) (Encoded, error)
	// Decode returns the answer that Encode was given with this binding. For
	// everything else it returns an error, never an answer.
	Decode(ctx context.Context, binding []byte, e Encoded) (answer []byte, err error)
	// ReadsPlain reports whether an answer that was stored as it is may be
	// replayed. A codec that protects answers from whoever can write to the
	// table says no, once all answers from before have expired.
	ReadsPlain() bool
}

// Encoded is an answer in the form that a [Codec] has given it.
type Encoded struct {
	// Format says how Data is to be read. It is the codec's own, 1 to 31; 16 and
	// above are for codecs that are no part of this module.
	Format byte
	// KeyID names the key that Data is encrypted with, and is "" where there is
	// none. It is stored in plain, so that it can be told which key is missing.
	KeyID string
	Data  []byte
}

// maxFormat is below every byte that a header line begins with.
const maxFormat = 0x1f

// codecTimeout bounds what a codec does for one answer.
const codecTimeout = 5 * time.Second

// EncodeAnswer returns what a store keeps of the answer to req, beside its
// status: the bytes of its columns for header and body. Without a codec, which
// is nil then, these are the body itself and a "Name: value" line (RFC 9112
// section 5) for each header value, ordered by name. Otherwise the header begins
// with the format, a byte below 0x20, and goes on with the id of the key; the
// body has all the rest.
//
// A codec has 5 s, and does not end with ctx. If it fails, the error matches
// [ErrUnavailable] and nothing may be kept.
func EncodeAnswer(ctx context.Context, c Codec, req Request, resp Response) (header, body []byte, err error) {
	header, body = marshalHeader(resp.Header), resp.Body
	if c == nil {
		return header, body, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), codecTimeout)
	defer cancel()
	answer := make([]byte, 0, binary.MaxVarintLen64+len(header)+len(body))
	answer = binary.AppendUvarint(answer, uint64(len(header)))
	answer = append(append(answer, header...), body...)
	e, err := c.Encode(ctx, binding(req.Identity, req.Fingerprint[:], resp.Status), answer)
	switch {
	case err != nil:
		return nil, nil, &Error{Code: CodeUnavailable, Detail: "the answer could not be encoded for the store; nothing was kept", Err: err}
	case e.Format > maxFormat:
		return nil, nil, fmt.Errorf("idempotency: the codec has returned the format %d, and they end at %d; nothing was kept", e.Format, maxFormat)
	case e.Format == 0:
		return header, body, nil
	}
	return append([]byte{e.Format}, e.KeyID...), e.Data, nil
}

// StoredAnswer is an answer as a store has read it: the columns of a row.
type StoredAnswer struct {
	Identity
	Fingerprint  []byte
	Status       int
	Header, Body []byte // as EncodeAnswer has returned them
}

// DecodeAnswer returns the answer that [EncodeAnswer] was given. One that was
// stored without a codec is returned with any codec, unless that refuses it. An
// answer that cannot be read is an [*Error] that matches [ErrOutcomeUnknown],
// since its request was carried out, and wraps an [*UnreadableError]; of the
// Response there is the status alone then. A codec has 5 s, or less if ctx ends.
func DecodeAnswer(ctx context.Context, c Codec, s StoredAnswer) (Response, error) {
	e, resp := s.encoded(), Response{Status: s.Status}
	header, body := s.Header, s.Body
	var err error
	switch {
	case s.Status < 100 || s.Status > 999:
		err = fmt.Errorf("its status is %d", s.Status)
	case e.Format == 0 && (c == nil || c.ReadsPlain()):
	case e.Format == 0:
		err = errors.New("it is stored in plain, and the codec refuses that")
	case c == nil:
		err = errors.New("the store has no codec; give it the one that the answer was stored with, by WithCodec")
	default:
		header, body, err = s.decode(ctx, c, e)
	}
	if err == nil {
		resp.Header, err = unmarshalHeader(header)
	}
	if err != nil {
		return resp, e.unreadable(err)
	}
	resp.Body = body
	return resp, nil
}

// encoded returns the answer's form, with format 0 where it is plain.
func (s *StoredAnswer) encoded() Encoded {
	if len(s.Header) == 0 || s.Header[0] > maxFormat || s.Header[0] == 0 {
		return Encoded{}
	}
	return Encoded{Format: s.Header[0], KeyID: string(s.Header[1:]), Data: s.Body}
}

func (s *StoredAnswer) decode(ctx context.Context, c Codec, e Encoded) (header, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, codecTimeout)
	defer cancel()
	answer, err := c.Decode(ctx, binding(s.Identity, s.Fingerprint, s.Status), e)
	if err != nil {
		return nil, nil, err
	}
	length, n := binary.Uvarint(answer)
	if n <= 0 || length > uint64(len(answer)-n) {
		return nil, nil, errors.New("what the codec has decoded is no answer")
	}
	end := n + int(length)
	return answer[n:end], answer[end:], nil
}

// binding says whose an answer is, length-framed: it is the same in every
// release.
func binding(id Identity, fingerprint []byte, status int) []byte {
	b := make([]byte, 0, 4*binary.MaxVarintLen64+len(id.Scope)+len(id.Operation)+len(id.Key)+len(fingerprint)+2)
	b = appendFramed(b, id.Scope)
	b = appendFramed(b, id.Operation)
	b = appendFramed(b, id.Key)
	b = appendFramed(b, string(fingerprint))
	return binary.BigEndian.AppendUint16(b, uint16(status)) // 100 to 999
}

// UnreadableError says why a stored answer cannot be replayed: its key is not
// at hand, it was stored by a codec that this process does not have, or somebody
// has changed it.
type UnreadableError struct {
	// Format and KeyID are those of [Encoded]; Format is 0 where the answer is
	// stored in plain.
	Format byte
	KeyID  string
	Err    error
}

func (e *UnreadableError) Error() string {
	form := "in plain"
	switch {
	case e.KeyID != "":
		form = fmt.Sprintf("in format %d with the key %q", e.Format, e.KeyID)
	case e.Format != 0:
		form = fmt.Sprintf("in format %d", e.Format)
	}
	return fmt.Sprintf("the answer is stored %s and cannot be read: %v", form, e.Err)
}

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Err }

// unreadable is the refusal to replay e. Neither its client nor its operator may
// take the request for one that was not carried out.
func (e *Encoded) unreadable(cause error) error {
	return &Error{
		Code:   CodeOutcomeUnknown,
		Detail: "the request was carried out, and this server cannot read the stored answer; the same request with the same key gets it from one that can",
		Err:    &UnreadableError{Format: e.Format, KeyID: e.KeyID, Err: cause},
	}
}
