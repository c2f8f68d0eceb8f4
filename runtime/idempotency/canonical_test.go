package idempotency

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func canonical(src string, pointers ...string) (string, error) {
	var c canonicalizer
	out, err := c.canonicalize(nil, []byte(src), pointers, false)
	return string(out), err
}

func mustCanonical(t *testing.T, src string) string {
	t.Helper()
	out, err := canonical(src)
	if err != nil {
		t.Fatalf("%q: %v", src, err)
	}
	return out
}

// Texts of one line share a form; texts of two lines do not. Covers FPR-07,
// FPR-08 and FPR-20.
func TestCanonicalForms(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, same := range [][]string{
		// Numbers are their exact value.
		{"1", "1.0", "1e0", "1E+00", "10e-1", "0.1e1", "100e-2", "1.000"},
		{"100", "1e2", "1000e-1", "0.1e3"},
		{"0", "0.0", "0e5", "0E-99999999999999999999", "0.000e99999999999999999999"},
		{"-0", "-0.0", "-0e5"},
		{"-1", "-1.0"},
		{"0.5", "5e-1", "0.50"},
		{"0.05", "5e-2"},
		{"12.34", "1234e-2", "0.1234e2"},
		{"9007199254740992"},
		{"9007199254740993"},
		{"0.1"},
		{"0.1000000000000000055511151231257827"},
		{"1e400"},
		{"1e18446744073709551616"}, // 0 in 64 bits
		{"1e-400"},
		{"1e999999999999999999", "10e999999999999999998"},
		{"1e1000000000000000000"},
		{"1e1000000000000000001"},
		{"1e99999999999999999999999999"},
		{"1e-99999999999999999999999999"},
		{"2e99999999999999999999999999"},

		// Strings are their text; what is not Unicode is U+FFFD, as for a handler.
		{`"A"`, `"\u0041"`},
		{`"1"`},
		{`"a"`},
		{`"/"`, `"\/"`},
		{`"\u2028"`, "\"\u2028\""},
		{`"\ud83d\ude00"`, `"😀"`, `"\uD83D\uDE00"`},
		{`"\ud83d"`, `"\ude00"`, "\"\xff\"", "\"\xed\"", "\"\ufffd\""},
		{`"\ud83d\ud83d\ude00"`, "\"\ufffd😀\""},
		{"\"\xff\xff\"", `"\ud800\ud800"`},
		{`"é"`, `"\u00e9"`},
		{`"e\u0301"`}, // not normalised: a handler sees the difference
		{`"\u0000"`},
		{`""`},
		{`"\"\\\b\f\n\r\t"`, `"\u0022\u005c\u0008\u000c\u000a\u000d\u0009"`},

		// Absent, null, empty and default values are different.
		{`null`, " \t\r\n null \n"},
		{`true`},
		{`false`},
		{`{}`, "{ }"},
		{`[]`, "[\n]"},
		{`[null]`},
		{`[[]]`},
		{`[[],[]]`},
		{`[{},{}]`},
		{`{"note":null}`},
		{`{"note":""}`},
		{`{"note":0}`},
		{`{"note":false}`},
		{`{"note":[]}`},
		{`{"note":{}}`},

		// Members in any order, except those that encoding/json takes for one.
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `{"\u0062":2,"\u0061":1.0}`},
		{`{"a":{"a":1,"b":2}}`, `{"a":{"b":2,"a":1}}`},
		{`{"a":1,"a":2}`},
		{`{"a":2,"a":1}`},
		{`{"a":1,"A":2}`},
		{`{"A":1,"a":2}`},
		{`{"A":2,"a":1}`},
		{`{"a":2}`},
		{`{"A":2}`},
		{`{"k":1,"\u212a":2,"j":3}`, "{\"j\":3,\"k\":1,\"\u212a\":2}"}, // the Kelvin sign folds with k
		{`{"\u212a":2,"k":1,"j":3}`},
		{`{"s":1,"ſ":2,"t":0}`, `{"t":0,"s":1,"ſ":2}`},
		{`{"é":1,"É":2,"z":0}`, `{"z":0,"é":1,"É":2}`},
		{`{"a":[{"y":1,"x":2},{"x":3,"w":4}],"A":0}`, `{"a":[{"x":2,"y":1},{"w":4,"x":3}],"A":0}`},
		{`{"c":{"z":{"b":1,"a":2},"y":0},"b":[{"b":1,"a":{"d":1,"c":1}}],"a":{}}`, `{"a":{},"b":[{"a":{"c":1,"d":1},"b":1}],"c":{"y":0,"z":{"a":2,"b":1}}}`},

		// Nothing runs together.
		{`[1,2]`},
		{`[12]`},
		{`["a","b"]`},
		{`["ab"]`},
		{`["a\",\"b"]`},
		{`{"a":"b","c":"d"}`},
		{`{"a":["b","c","d"]}`},
		{`{"a":"}"}`},
		{`[[1],2]`},
		{`[[1,2]]`},
		{`[1,[2]]`},
	} {
		first := same[0]
		form := mustCanonical(t, first)
		if other, ok := seen[form]; ok {
			t.Errorf("%s and %s share the form %q", first, other, form)
		}
		seen[form] = first
		for _, text := range same[1:] {
			if got := mustCanonical(t, text); got != form {
				t.Errorf("%s is %q, but %s is %q", first, form, text, got)
			}
		}
	}
}

// Covers FPR-09.
func TestCanonicalTakesWhatEncodingJSONTakes(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	for text, valid := range map[string]bool{
		"": false, " ": false, "{": false, "}": false, "[": false, "[1": false, "[1,": false, "[1,]": false, "[,1]": false,
		"{,}": false, `{"a"}`: false, `{"a":}`: false, `{"a":1,}`: false, `{a:1}`: false, `{1:1}`: false, `{"a":1 "b":2}`: false,
		"01": false, "-": false, "-01": false, "1.": false, ".1": false, "1e": false, "1e+": false, "+1": false, "0x1": false,
		"1 2": false, "{}{}": false, "{}x": false, "null,": false, "nul": false, "nulL": false, "True": false, "NaN": false, "Infinity": false,
		`"`: false, `"\`: false, `"\x"`: false, `"\'"`: false, `"\u12"`: false, `"\u12g4"`: false, `"\u123"`: false, "\"\n\"": false, "\"\x00\"": false, `'a'`: false,
		`"\ud800\u"`: false, `"\ud800\n"`: true, "\"\x7f\"": true,
		"\ufeff{}": false, "{}\x00": false, "\f{}": false, "\u00a0{}": false, "[1]//": false,
		nested(10000): true, nested(10001): false, "{}": true, "\t{}\r\n": true,
		strings.Repeat(`{"a":`, 10000) + "1" + strings.Repeat("}", 10000): true,
		strings.Repeat(`{"a":`, 10001) + "1" + strings.Repeat("}", 10001): false,
	} {
		if json.Valid([]byte(text)) != valid {
			t.Errorf("encoding/json does not agree on %.40q", text)
		}
		if _, err := canonical(text); (err == nil) != valid {
			t.Errorf("canonicalize(%.40q) returns error %v", text, err)
		}
	}
}

func TestCanonicalPointers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pointers []string
		include  bool
		in, same string
	}{
		{[]string{"/sent_at"}, false, `{"a":1,"sent_at":5}`, `{"a":1}`},
		{[]string{"/sent_at"}, false, `{"a":1,"sent_at":5,"Sent_At":{"b":1,"a":2},"SENT_AT":7}`, `{"a":1}`},
		{[]string{"/sent_at"}, false, `{"a":{"sent_at":1}}`, `{"a":{"sent_at":1}}`},
		{[]string{"/a/b"}, false, `{"b":1,"A":{"B":[{"z":1,"y":2}],"c":3}}`, `{"b":1,"A":{"c":3}}`},
		{[]string{"/a/b", "/a"}, false, `{"a":{"b":1},"c":1}`, `{"c":1}`},
		{[]string{"/a/b", "/a/c"}, false, `{"a":{"d":0,"c":2,"b":1}}`, `{"a":{"d":0}}`},
		{[]string{"/a/1/t"}, false, `{"a":[{"t":1},{"t":2,"u":3}]}`, `{"a":[{"t":1},{"u":3}]}`},
		{[]string{"/1"}, false, `["a","b","c"]`, `["a","c"]`},
		{[]string{"/a~1b"}, false, `{"a/b":1}`, `{}`},
		{[]string{"/m~0n"}, false, `{"m~n":1}`, `{}`},
		{[]string{"/~01"}, false, `{"~1":1}`, `{}`},
		{[]string{"/"}, false, `{"":1}`, `{}`},
		{[]string{"/a"}, false, `5`, `5`},

		{[]string{"/amount"}, true, `{"note":"x","amount":1,"z":[1,2]}`, `{"amount":1}`},
		{[]string{"/amount"}, true, `{"amount":1,"AMOUNT":900}`, `{"amount":1,"AMOUNT":900}`},
		{[]string{"/amount"}, true, `{"note":"x"}`, `{}`},
		{[]string{"/a/b"}, true, `{"b":0,"a":{"c":1,"b":{"y":1,"x":2}}}`, `{"a":{"b":{"x":2,"y":1}}}`},
		{[]string{"/a/b"}, true, `{"a":5}`, `{"a":5}`},
		{[]string{"/a", "/c"}, true, `{"c":3,"b":2,"a":1}`, `{"a":1,"c":3}`},
		{[]string{"/items/0"}, true, `{"items":["a","b"]}`, `{"items":["a"]}`},
	} {
		var c canonicalizer
		got, err := c.canonicalize(nil, []byte(test.in), test.pointers, test.include)
		if want := mustCanonical(t, test.same); string(got) != want || err != nil {
			t.Errorf("%v of %s is %q, %v; want %q", test.pointers, test.in, got, err, want)
		}
	}
	if _, err := canonical(`{"a":[1,}`, "/a"); err == nil {
		t.Error("what is left out is not checked")
	}
}

// A canonicalizer that is used again forgets the text before.
func TestCanonicalizerIsUsedAgain(t *testing.T) {
	t.Parallel()
	var c canonicalizer
	texts := []string{`{"b":{"d":1,"c":2},"a":[{"z":1,"y":2}]}`, `{"b":[1,{"b":1,"a"`, `[1]`, `{"b":1,"a":2}`, `{"a":1}`}
	for range 2 {
		for _, text := range texts {
			got, err := c.canonicalize(nil, []byte(text), nil, false)
			want, wantErr := canonical(text)
			if wantErr == nil && string(got) != want || (err == nil) != (wantErr == nil) {
				t.Errorf("%s is %q, %v; want %q, %v", text, got, err, want, wantErr)
			}
		}
	}
}

// FuzzCanonical checks that texts which a handler can tell apart never share a
// form, and that white space, escapes, number spelling and the order of
// members never matter.
func FuzzCanonical(f *testing.F) {
	for _, text := range []string{
		`{"amount":1,"AMOUNT":900,"note":null,"nested":{"b":[1,2.50,-0],"a":"\ud83d\ude00"}}`,
		`{"nested":{"k":1},"nested":{"\u212a":2,"s":3},"ſ":[true,false,{"x":{}}]}`,
		"[\"\xff\",\"\\ud800\",1e400,100e-2]", `{"a":1}{"a":9}`, `0E-99999999999999999999`, `{"":{"":[[],{}]}}`, `[1,[2,"3"]]`,
	} {
		f.Add([]byte(text), []byte(`{"amount":1}`), uint64(1))
	}
	f.Fuzz(func(t *testing.T, a, b []byte, seed uint64) {
		if len(a) > 1<<14 || len(b) > 1<<14 {
			return
		}
		random := rand.New(rand.NewPCG(seed, seed))
		formA, errA := canonical(string(a))
		if (errA == nil) != json.Valid(a) {
			t.Fatalf("%q: %v, json.Valid %v", a, errA, json.Valid(a))
		}
		if errA != nil {
			return
		}
		for _, other := range [][]byte{b, mutate(a, random)} {
			formB, errB := canonical(string(other))
			if (errB == nil) != json.Valid(other) {
				t.Fatalf("%q: %v, json.Valid %v", other, errB, json.Valid(other))
			}
			if errB == nil && formA == formB {
				requireSameViews(t, a, other)
			}
		}
		again := respell(t, a, random)
		if formAgain, err := canonical(string(again)); formAgain != formA || err != nil {
			t.Fatalf("%q is %q, but %q is %q, %v", a, formA, again, formAgain, err)
		}
	})
}

// mutate changes one byte of text, or swaps two.
func mutate(text []byte, random *rand.Rand) []byte {
	text = bytes.Clone(text)
	i, j := random.IntN(len(text)), random.IntN(len(text))
	const interesting = "01-.eE\"\\{}[]:,aAkKsS \xff"
	switch random.IntN(3) {
	case 0:
		text[i] = interesting[random.IntN(len(interesting))]
	case 1:
		text[i], text[j] = text[j], text[i]
	default:
		text[i] ^= 0x20 // the other case of a letter
	}
	return text
}

// view is what a handler sees of a body: fields that differ in case alone,
// values that later members are merged into, and the rest as it comes.
type view struct {
	Amount any            `json:"amount"`
	Upper  any            `json:"AMOUNT"`
	K      any            `json:"k"`
	S      any            `json:"S"`
	A      any            `json:"a"`
	Nested *view          `json:"nested"`
	Map    map[string]any `json:"map"`
	Text   *string        `json:"text"`
	List   []view         `json:"list"`
	Number *int64         `json:"number"`
	Float  *float64       `json:"float"`
}

// requireSameViews fails unless a handler sees the same in both texts.
func requireSameViews(t *testing.T, a, b []byte) {
	t.Helper()
	for _, newView := range []func() any{
		func() any { return new(any) },
		func() any { return new(view) },
		func() any { return new([]view) },
		func() any { return new(map[string]any) },
		func() any { return new(map[string]json.RawMessage) },
	} {
		viewA, viewB := newView(), newView()
		errA, errB := decode(a, viewA), decode(b, viewB)
		if _, raw := viewA.(*map[string]json.RawMessage); raw {
			viewA, viewB = rawView(t, viewA), rawView(t, viewB)
		}
		// A number that fits its field in one spelling alone is refused before a
		// fingerprint is taken.
		var typeError *json.UnmarshalTypeError
		if errors.As(errA, &typeError) || errors.As(errB, &typeError) {
			continue
		}
		if (errA == nil) != (errB == nil) || errA == nil && !sameValue(reflect.ValueOf(viewA), reflect.ValueOf(viewB)) {
			t.Fatalf("%q and %q share a form, but %T holds %v and %v (%v, %v)", a, b, viewA, viewA, viewB, errA, errB)
		}
	}
}

func decode(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(v)
}

func rawView(t *testing.T, v any) any {
	t.Helper()
	values := map[string]any{}
	for name, raw := range *v.(*map[string]json.RawMessage) {
		var value any
		if err := decode(raw, &value); err != nil {
			t.Fatal(err)
		}
		values[name] = value
	}
	return values
}

// sameValue is reflect.DeepEqual, except that numbers are compared by value.
func sameValue(a, b reflect.Value) bool {
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return false
	}
	if !a.IsValid() {
		return true
	}
	switch a.Kind() {
	case reflect.String:
		if _, ok := reflect.TypeAssert[json.Number](a); ok {
			return sameNumber(a.String(), b.String())
		}
		return a.String() == b.String()
	case reflect.Pointer, reflect.Interface:
		return a.IsNil() == b.IsNil() && sameValue(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if !sameValue(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !sameValue(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		for _, key := range a.MapKeys() {
			if !sameValue(a.MapIndex(key), b.MapIndex(key)) {
				return false
			}
		}
		return true
	case reflect.Float64:
		return fmt.Sprint(a.Float()) == fmt.Sprint(b.Float()) // tells 0 from -0
	default:
		return a.Interface() == b.Interface()
	}
}

// sameNumber compares JSON numbers by sign and exact value.
func sameNumber(a, b string) bool {
	signA, digitsA, powerA := decimal(a)
	signB, digitsB, powerB := decimal(b)
	return signA == signB && digitsA == digitsB && (digitsA == "" || powerA.Cmp(powerB) == 0)
}

func decimal(s string) (negative bool, digits string, power *big.Int) {
	s, negative = strings.CutPrefix(s, "-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	power, ok := new(big.Int).SetString(strings.TrimPrefix(exponent, "+"), 10)
	if !ok {
		power = new(big.Int)
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	power.Sub(power, big.NewInt(int64(len(fraction))))
	trimmed := strings.TrimRight(digits, "0")
	power.Add(power, big.NewInt(int64(len(digits)-len(trimmed))))
	return negative, trimmed, power
}

// respell returns text with other white space, escapes, number spellings and
// order of members; those whose names differ in case alone keep their order.
func respell(t *testing.T, text []byte, random *rand.Rand) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out bytes.Buffer
	respellValue(t, d, &out, random)
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return out.Bytes()
}

func respellValue(t *testing.T, d *json.Decoder, out *bytes.Buffer, random *rand.Rand) {
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	respace(out, random)
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			out.WriteByte('[')
			for i := 0; d.More(); i++ {
				if i > 0 {
					out.WriteByte(',')
				}
				respellValue(t, d, out, random)
			}
		} else {
			out.WriteByte('{')
			type member struct {
				name string
				text []byte
			}
			var members []member
			for d.More() {
				name, err := d.Token()
				if err != nil {
					t.Fatal(err)
				}
				var m bytes.Buffer
				respellString(name.(string), &m, random)
				respace(&m, random)
				m.WriteByte(':')
				respellValue(t, d, &m, random)
				members = append(members, member{name.(string), m.Bytes()})
			}
			for range 2 * len(members) * min(len(members), 8) {
				i := random.IntN(len(members))
				if i > 0 && !strings.EqualFold(members[i-1].name, members[i].name) {
					members[i-1], members[i] = members[i], members[i-1]
				}
			}
			for i, m := range members {
				if i > 0 {
					out.WriteByte(',')
				}
				respace(out, random)
				out.Write(m.text)
			}
		}
		respace(out, random)
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
		out.WriteByte(byte(token) + 2) // the closing bracket
	case string:
		respellString(token, out, random)
	case json.Number:
		respellNumber(string(token), out, random)
	case bool:
		fmt.Fprint(out, token)
	case nil:
		out.WriteString("null")
	}
	respace(out, random)
}

func respace(out *bytes.Buffer, random *rand.Rand) {
	for range random.IntN(3) {
		out.WriteByte(" \t\r\n"[random.IntN(4)])
	}
}

func respellString(s string, out *bytes.Buffer, random *rand.Rand) {
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case r > 0xffff && random.IntN(2) == 0:
			fmt.Fprintf(out, `\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		case r == utf8.RuneError && random.IntN(2) == 0:
			out.WriteString(`\udead`)
		case r < ' ' || r == '"' || r == '\\' || r <= 0xffff && random.IntN(4) == 0:
			fmt.Fprintf(out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
}

func respellNumber(s string, out *bytes.Buffer, random *rand.Rand) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	if len(strings.TrimLeft(exponent, "+-0")) > 17 || random.IntN(2) == 0 {
		out.WriteString(s)
		return
	}
	power, ok := new(big.Int).SetString(strings.TrimPrefix(exponent, "+"), 10)
	if !ok {
		power = new(big.Int)
	}
	if !strings.Contains(mantissa, ".") {
		mantissa += "."
	}
	zeros := random.IntN(4)
	fmt.Fprintf(out, "%s%sE%v", mantissa, "0"+strings.Repeat("0", zeros), power)
}

func BenchmarkCanonicalHostile(b *testing.B) {
	const size = 1 << 20
	deep := func(open, inner, closing string, depth int) string {
		return strings.Repeat(open, depth) + inner + strings.Repeat(closing, depth)
	}
	var names, duplicates strings.Builder
	for i := 0; names.Len() < size; i++ {
		fmt.Fprintf(&names, `"%07d":0,`, i*7919%10000000)
		fmt.Fprintf(&duplicates, `"%s":0,`, []string{"a", "A"}[i%2])
	}
	for _, test := range []struct{ name, text string }{
		{"string", `"` + strings.Repeat("a", size) + `"`},
		{"escapes", `"` + strings.Repeat(`\u0041`, size/6) + `"`},
		{"digits", strings.Repeat("1", size)},
		{"exponent", "1e" + strings.Repeat("9", size)},
		{"zeros", "0." + strings.Repeat("0", size) + "1"},
		{"objects", "[" + strings.Repeat("{},", size/3) + "0]"},
		{"names", "{" + names.String() + `"":0}`},
		{"duplicates", "{" + duplicates.String() + `"":0}`},
		{"two long names", `{"` + strings.Repeat("b", size/2) + `":0,"` + strings.Repeat("a", size/2) + `":0}`},
		{"deep and unordered", deep(`{"b":`, `"`+strings.Repeat("x", size-100000)+`"`, `,"a":0}`, 9000)},
	} {
		b.Run(strings.ReplaceAll(test.name, " ", "-"), func(b *testing.B) {
			var c canonicalizer
			var out []byte
			b.SetBytes(int64(len(test.text)))
			for b.Loop() {
				var err error
				if out, err = c.canonicalize(out[:0], []byte(test.text), nil, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
