package answercodec_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/idemgen/idemgen/runtime/answercodec"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// BenchmarkCodec measures what a codec adds to a first request, which it encodes,
// and to a replay, which it decodes, beside what a store does without it. The
// answers are JSON lists; "stored" is how many bytes of one are.
func BenchmarkCodec(b *testing.B) {
	keys := answercodec.WithEncryption(ring(b, "1"))
	for _, c := range []struct {
		name  string
		codec idempotency.Codec
	}{
		{"none", nil},
		{"encrypted", newCodec(b, keys)},
		{"compressed", newCodec(b, answercodec.WithCompression())},
		{"both", newCodec(b, keys, answercodec.WithCompression())},
	} {
		for _, size := range []int{512, 8 << 10, 256 << 10} {
			resp := answer(list(size))
			req := request("k")
			s := encode(b, c.codec, req, resp)
			name := fmt.Sprintf("%s/%d", c.name, size)
			b.Run("encode/"+name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(resp.Body)))
				for b.Loop() {
					if _, _, err := idempotency.EncodeAnswer(b.Context(), c.codec, req, resp); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(s.Header)+len(s.Body)), "stored")
			})
			b.Run("decode/"+name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(resp.Body)))
				for b.Loop() {
					got, err := idempotency.DecodeAnswer(b.Context(), c.codec, s)
					if err != nil || !bytes.Equal(got.Body, resp.Body) {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
