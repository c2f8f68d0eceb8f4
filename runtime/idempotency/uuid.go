package idempotency

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// newUUIDv7 returns a new UUIDv7 in lower case: 48 bits of Unix milliseconds,
// then 74 random bits (RFC 9562 section 5.7).
func newUUIDv7() string {
	var u [16]byte
	_, _ = rand.Read(u[6:]) // never fails: a system without randomness ends the program
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli())<<16)
	copy(u[:6], ms[:6])
	u[6] = u[6]&0x0f | 0x70 // version 7
	u[8] = u[8]&0x3f | 0x80 // the variant of RFC 9562
	return formatUUID(u)
}

// formatUUID returns u as text in lower case (RFC 9562 section 4).
func formatUUID(u [16]byte) string {
	var text [36]byte
	at := 0
	for _, group := range [...][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		if at > 0 {
			text[at] = '-'
			at++
		}
		at += hex.Encode(text[at:], group)
	}
	return string(text[:])
}

// uuidv7Time returns the Unix milliseconds of a UUIDv7 in its usual form, in
// either case, and false for anything else (RFC 9562 section 5.7).
func uuidv7Time(s string) (int64, bool) {
	if len(s) != 36 || s[14] != '7' || !isUUID(s) {
		return 0, false
	}
	switch s[19] {
	case '8', '9', 'a', 'b', 'A', 'B':
	default:
		return 0, false
	}
	var src [12]byte
	copy(src[:8], s[:8])
	copy(src[8:], s[9:13])
	var b [6]byte
	if _, err := hex.Decode(b[:], src[:]); err != nil {
		return 0, false
	}
	var ms int64
	for _, x := range b {
		ms = ms<<8 | int64(x)
	}
	return ms, true
}

// isUUID reports whether s has the form 8-4-4-4-12 hexadecimal digits.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				return false
			}
		}
	}
	return true
}
