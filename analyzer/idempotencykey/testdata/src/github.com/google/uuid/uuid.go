// Package uuid has the shape of Google's.
package uuid

type UUID [16]byte

func (UUID) String() string { return "" }

func New() UUID                            { return UUID{} }
func NewString() string                    { return "" }
func NewV7() (UUID, error)                 { return UUID{}, nil }
func Must(id UUID, err error) UUID         { return id }
func NewSHA1(space UUID, data []byte) UUID { return UUID{} }
