package pgxstore

import "sync/atomic"

// recent remembers requests whose records this process has lately written or
// replayed: a hint that a plain SELECT will do, and never more than that. The
// record decides, here as everywhere. A slot holds the hash of the last request
// that fell on it.
type recent [4096]atomic.Int64

func (r *recent) slot(hash int64) *atomic.Int64 { return &r[uint64(hash)%uint64(len(r))] }

func (r *recent) add(hash int64) { r.slot(hash).Store(hash) }

func (r *recent) has(hash int64) bool { return r.slot(hash).Load() == hash }

func (r *recent) remove(hash int64) { r.slot(hash).CompareAndSwap(hash, 0) }
