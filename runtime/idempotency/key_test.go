package idempotency

import (
	"errors"
	"strings"
	"testing"
)

const (
	someUUIDv4 = "8e03978e-40d5-43dd-bc93-6894a57f9324"
	someUUIDv7 = "01890a5d-ac96-774b-bcce-b302099a8057"
)

// Covers PRO-01, PRO-04 and PRO-08 as far as the grammar goes.
func TestNormalizeKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 255)
	for _, test := range []struct {
		name string
		rule KeyRule
		in   string
		want string // "" for CodeKeyInvalid
	}{
		{"bare", KeyRule{}, "k1", "k1"},
		{"quoted is the same key", KeyRule{}, `"k1"`, "k1"},
		{"parameters are ignored", KeyRule{}, `"k1";a=1; b="x"`, "k1"},
		{"escapes are resolved", KeyRule{}, `"a\"b\\c"`, `a"b\c`},
		{"comma in quotes", KeyRule{}, `"a,b"`, "a,b"},
		{"bare backslash", KeyRule{}, `a\b`, `a\b`},
		{"first and last visible byte", KeyRule{}, "!~", "!~"},
		{"case counts", KeyRule{}, "Ab", "Ab"},
		{"longest", KeyRule{}, long, long},
		{"longest, quoted", KeyRule{}, `"` + long + `"`, long},
		{"own limit above the usual one", KeyRule{MaxLength: 300}, long + "k", long + "k"},

		{"empty", KeyRule{}, "", ""},
		{"blank", KeyRule{}, "   ", ""},
		{"empty string", KeyRule{}, `""`, ""},
		{"blank string", KeyRule{}, `" "`, ""},
		{"too long", KeyRule{}, long + "k", ""},
		{"too long, quoted", KeyRule{}, `"` + long + `k"`, ""},
		{"above its own limit", KeyRule{MaxLength: 3}, "four", ""},
		{"leading space", KeyRule{}, " k", ""},
		{"trailing space", KeyRule{}, "k ", ""},
		{"trailing space, quoted", KeyRule{}, `"k" `, ""},
		{"inner space", KeyRule{}, "a b", ""},
		{"inner space, quoted", KeyRule{}, `"a b"`, ""},
		{"tab", KeyRule{}, "a\tb", ""},
		{"control", KeyRule{}, "a\x00b", ""},
		{"DEL", KeyRule{}, "a\x7f", ""},
		{"UTF-8", KeyRule{}, "clé", ""},
		{"UTF-8, quoted", KeyRule{}, `"clé"`, ""},
		{"joined lines", KeyRule{}, "k1,k2", ""},
		{"joined quoted lines", KeyRule{}, `"k1","k2"`, ""},
		{"joined quoted lines, spaced", KeyRule{}, `"k1", "k2"`, ""},
		{"inner quote", KeyRule{}, `k"1`, ""},
		{"unclosed quote", KeyRule{}, `"k1`, ""},
		{"lone quote", KeyRule{}, `"`, ""},
		{"unknown escape", KeyRule{}, `"a\nb"`, ""},
		{"text after the string", KeyRule{}, `"k1"x`, ""},
		{"other structured types are plain text", KeyRule{}, "?1", "?1"},
		{"number", KeyRule{}, "17", "17"},

		{"uuid", KeyRule{Format: KeyUUID}, someUUIDv4, someUUIDv4},
		{"uuid in capitals is the same key", KeyRule{Format: KeyUUID}, strings.ToUpper(someUUIDv4), someUUIDv4},
		{"uuid, quoted", KeyRule{Format: KeyUUID}, `"` + strings.ToUpper(someUUIDv4) + `"`, someUUIDv4},
		{"uuid without hyphens", KeyRule{Format: KeyUUID}, strings.ReplaceAll(someUUIDv4, "-", ""), ""},
		{"uuid in braces", KeyRule{Format: KeyUUID}, "{" + someUUIDv4 + "}", ""},
		{"uuid with a wrong digit", KeyRule{Format: KeyUUID}, "g" + someUUIDv4[1:], ""},
		{"uuidv7", KeyRule{Format: KeyUUIDv7}, strings.ToUpper(someUUIDv7), someUUIDv7},
		{"uuidv7 of another version", KeyRule{Format: KeyUUIDv7}, someUUIDv4, ""},
		{"uuidv7 of another variant", KeyRule{Format: KeyUUIDv7}, someUUIDv7[:19] + "c" + someUUIDv7[20:], ""},
		{"opaque keys that look like UUIDs keep their case", KeyRule{}, strings.ToUpper(someUUIDv7), strings.ToUpper(someUUIDv7)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := normalizeKey(test.rule, []string{test.in})
			if got != test.want {
				t.Errorf("normalizeKey(%q) = %q, %v; want %q", test.in, got, err, test.want)
			}
			if invalid := errors.Is(err, ErrKeyInvalid); invalid != (test.want == "") || !invalid && err != nil {
				t.Errorf("normalizeKey(%q) returns error %v", test.in, err)
			}
		})
	}
}

// Covers PRO-03 and PRO-10: the refusal says which header is expected.
func TestNormalizeKeyMissing(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{"": "Idempotency-Key", "X-Request-Key": "X-Request-Key"} {
		_, err := normalizeKey(KeyRule{Header: header}, nil)
		var refusal *Error
		if !errors.As(err, &refusal) || refusal.Code != CodeKeyMissing || !strings.Contains(refusal.Detail, want) {
			t.Errorf("normalizeKey without a line returns %v, want %s naming %s", err, CodeKeyMissing, want)
		}
	}
}

// The refusal of a separator says what a key may hold instead, for the caller of
// a ParseKey as for a client of the server.
func TestKeyRefusalSaysWhatAKeyIs(t *testing.T) {
	t.Parallel()
	_, err := parseKey(KeyRule{MaxLength: 40}, "or,der")
	const want = "a key is 1 to 40 bytes of other visible ASCII, or a quoted string (RFC 9651)"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v; want %s", err, want)
	}
}

func TestNormalizeKeyRefusesSeveralLines(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{{"a", "b"}, {"a", "a"}, {"a", ""}, {`"a"`, "a"}} {
		if got, err := normalizeKey(KeyRule{}, lines); !errors.Is(err, ErrKeyInvalid) {
			t.Errorf("normalizeKey(%q) = %q, %v", lines, got, err)
		}
	}
}

func TestKeyRefusalsDoNotRepeatTheKey(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	for _, in := range []string{secret + " ", `"` + secret, secret + ",", strings.Repeat(secret, 50), secret + "\x00"} {
		for _, format := range []KeyFormat{KeyOpaque, KeyUUID, KeyUUIDv7} {
			_, err := parseKey(KeyRule{Format: format}, in)
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("parseKey(%q) returns error %v", in, err)
			}
		}
	}
}

func TestNewUUIDv7(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		key := newUUIDv7()
		if _, err := parseKey(KeyRule{Format: KeyUUIDv7}, key); err != nil || key != strings.ToLower(key) || seen[key] {
			t.Fatalf("newUUIDv7() = %q, %v, seen before: %v", key, err, seen[key])
		}
		seen[key] = true
	}
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{"k1", `"k1"`, `"k1";a=1`, `"a\"b\\c,d"`, "k1,k2", " ", `"`, someUUIDv4, strings.ToUpper(someUUIDv7), `"k";d=@1;e=%"x";f=:YQ==:;g=1.5;h=?0;i=tok`} {
		f.Add(s, uint8(0))
		f.Add(s, uint8(2))
	}
	f.Fuzz(func(t *testing.T, s string, format uint8) {
		rule := KeyRule{Format: KeyFormat(format % 3)}
		key, err := parseKey(rule, s)
		if err != nil {
			if !errors.Is(err, ErrKeyInvalid) || key != "" {
				t.Fatalf("parseKey(%q) = %q, %v", s, key, err)
			}
			return
		}
		if len(key) < 1 || len(key) > 255 {
			t.Fatalf("parseKey(%q) has %d bytes", s, len(key))
		}
		for i := range len(key) {
			if key[i] < 0x21 || key[i] > 0x7e {
				t.Fatalf("parseKey(%q) = %q", s, key)
			}
		}
		spellings := []string{spellKey(rule, key), `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`}
		if !strings.ContainsAny(key, `",`) {
			spellings = append(spellings, key)
		}
		for _, spelling := range spellings {
			if again, err := parseKey(rule, spelling); again != key || err != nil {
				t.Fatalf("parseKey(%q) = %q, but parseKey(%q) = %q, %v", s, key, spelling, again, err)
			}
		}
		if s[0] != '"' && rule.Format == KeyOpaque && key != s {
			t.Fatalf("parseKey(%q) = %q", s, key)
		}
	})
}

func BenchmarkNormalizeKey(b *testing.B) {
	for i, in := range []string{someUUIDv7, `"` + someUUIDv7 + `"`} {
		lines := []string{in}
		b.Run([]string{"bare", "quoted"}[i], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := normalizeKey(KeyRule{Format: KeyUUIDv7}, lines); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestNormalizeBareKeyAllocatesNothing(t *testing.T) { //nolint:paralleltest // counts what the whole program allocates
	lines := []string{someUUIDv7}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := normalizeKey(KeyRule{Format: KeyUUIDv7}, lines); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a bare key costs %v allocations", n)
	}
}
