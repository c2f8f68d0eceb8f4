// Package idempotency has the shape of the runtime's core.
package idempotency

import "context"

type Operation struct{ ID string }

type OpType interface{ Operation() *Operation }

type Key[Op OpType] struct {
	_ [0]Op
	v string
}

func NewKey[Op OpType]() Key[Op]                    { return Key[Op]{v: "new"} }
func ParseKey[Op OpType](s string) (Key[Op], error) { return Key[Op]{v: s}, nil }
func MustParseKey[Op OpType](s string) Key[Op]      { return Key[Op]{v: s} }
func (k Key[Op]) String() string                    { return k.v }
func (k Key[Op]) IsZero() bool                      { return k.v == "" }
func (k Key[Op]) Equal(other Key[Op]) bool          { return k.v == other.v }
func (k *Key[Op]) UnmarshalText(text []byte) error  { k.v = string(text); return nil }
func (k *Key[Op]) Scan(src any) error               { return nil }
func Derive[Op OpType](ctx context.Context, step string) (Key[Op], error) {
	return Key[Op]{v: step}, nil
}

type Sealed[In any] struct{ in In }

func Seal[Op OpType, In any](_ Key[Op], in In) Sealed[In] { return Sealed[In]{in} }
func (s Sealed[In]) Value() In                            { return s.in }

type Lease struct{}

type Request struct {
	Scope, Operation, Key string
}

type Response struct{ Status int }

type Store[Tx any] interface {
	Execute(ctx context.Context, req Request, work func(context.Context, Tx) (Response, error)) (Response, error)
}

func Do[T, Tx any](ctx context.Context, store Store[Tx], req Request, fn func(ctx context.Context, tx Tx) (T, error)) (value T, replayed bool, err error) {
	return value, false, nil
}
