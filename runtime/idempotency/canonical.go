package idempotency

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// canonicalizer brings JSON texts (RFC 8259) into one form for all texts that
// a Go handler cannot tell apart. It accepts exactly what encoding/json does.
//
// The form holds no white space. A string is a quote and its text with all
// escapes resolved, a number its exact value; both end with the byte 0xFF,
// which UTF-8 never holds, so that nothing needs an escape or a comma and no
// two values share a form. Members are ordered by their name as encoding/json
// folds it. It matches names to struct fields without regard to case and lets
// the last one win, so members whose names fold alike keep their order, and
// all of them stay.
//
// The text is read once. Nothing is moved while it is read, because a value
// inside many unordered objects would be moved once for each of them: emit
// puts the members in order at the end.
type canonicalizer struct {
	src   []byte
	at    int // the next byte of src
	depth int // of arrays and objects

	doc       []byte   // the values, members as they came
	objects   []object // those that emit has to look at, in the order of doc
	unordered []span   // the members of unordered objects, in order
	open      []member // the members so far of objects that are not complete
	order     []rank   // of the members of one object

	// pointers are JSON Pointers (RFC 6901), followed by what is left of them
	// below the values that they lead through.
	pointers []string
	include  bool // what the pointers name counts, else all but that
}

// span is a member, name and value.
type span struct {
	start, end int // in doc
	object     int // the first of objects that does not lie before it
}

type member struct {
	span
	nameEnd int    // in doc; the name begins behind the quote at start
	prefix  uint64 // of the folded name
}

// rank is what members are ordered by, small because it is moved about.
type rank struct {
	prefix uint64
	member int // in open
}

type object struct {
	start, end  int // its members in doc
	first, last int // its members in unordered; none if they are in order
	next        int // the first of objects that lies behind it
}

// selection is the range of pointers that concern a value. Without any, all of
// the value counts.
type selection struct{ first, last int }

const (
	valueEnd     = 0xff
	maxJSONDepth = 10000 // as in encoding/json
)

// canonicalize appends the canonical form of src to dst. Pointers leave parts
// of src out, or all but those parts if include is set. They name a member in
// all spellings that encoding/json takes for the same field. It returns an
// error if src is not exactly one JSON value.
func (c *canonicalizer) canonicalize(dst, src []byte, pointers []string, include bool) ([]byte, error) {
	c.src, c.at, c.depth = src, 0, 0
	c.doc, c.objects, c.unordered = c.doc[:0], c.objects[:0], c.unordered[:0]
	c.open = c.open[:0]
	c.pointers, c.include = append(c.pointers[:0], pointers...), include
	defer func() { c.src = nil }()

	if err := c.value(selection{0, len(pointers)}); err != nil {
		return dst, err
	}
	if c.space(); c.at < len(c.src) {
		return dst, fmt.Errorf("something follows the JSON value at byte %d", c.at)
	}
	return c.emit(dst, 0, len(c.doc), 0), nil
}

// emit appends doc[from:to] with all members in order. next is the first of
// objects that can begin there.
func (c *canonicalizer) emit(dst []byte, from, to, next int) []byte {
	for next < len(c.objects) && c.objects[next].start < to {
		o := &c.objects[next]
		if o.first == o.last {
			next++ // in order itself, but not all that it holds
			continue
		}
		dst = append(dst, c.doc[from:o.start]...)
		for _, m := range c.unordered[o.first:o.last] {
			dst = c.emit(dst, m.start, m.end, m.object)
		}
		from, next = o.end, o.next
	}
	return append(dst, c.doc[from:to]...)
}

func (c *canonicalizer) value(sel selection) error {
	switch b := c.peek(); b {
	case '{':
		return c.object(sel)
	case '[':
		return c.array(sel)
	case '"':
		return c.string()
	case 'n':
		return c.literal("null")
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return c.number()
	}
	return c.unexpected()
}

func (c *canonicalizer) object(sel selection) error {
	if err := c.enter(); err != nil {
		return err
	}
	self, firstOpen := len(c.objects), len(c.open)
	c.objects = append(c.objects, object{start: len(c.doc)})
	ordered := true
	for more := c.peek() != '}'; more; {
		m := member{span: span{start: len(c.doc), object: len(c.objects)}}
		if err := c.name(); err != nil {
			return err
		}
		m.nameEnd = len(c.doc) - 1
		name := c.doc[m.start+1 : m.nameEnd]
		m.prefix = foldedPrefix(name)
		below, counts := c.descend(sel, name)
		err := c.value(below)
		if err != nil {
			return err
		}
		if counts {
			m.end = len(c.doc)
			c.open = append(c.open, m)
			if last := len(c.open) - 1; ordered && last > firstOpen {
				ordered = c.compare(rank{c.open[last-1].prefix, last - 1}, rank{m.prefix, last}) < 0
			}
		} else {
			c.doc, c.objects = c.doc[:m.start], c.objects[:m.object]
		}
		if more, err = c.more('}'); err != nil {
			return err
		}
	}
	o := &c.objects[self]
	o.end, o.next = len(c.doc), len(c.objects)
	switch {
	case !ordered:
		c.order = c.order[:0]
		for i := firstOpen; i < len(c.open); i++ {
			c.order = append(c.order, rank{c.open[i].prefix, i})
		}
		slices.SortFunc(c.order, c.compare)
		o.first = len(c.unordered)
		for _, r := range c.order {
			c.unordered = append(c.unordered, c.open[r.member].span)
		}
		o.last = len(c.unordered)
	case o.next == self+1: // nothing in it is unordered
		c.objects = c.objects[:self]
	}
	c.open = c.open[:firstOpen]
	c.leave('}')
	return nil
}

// compare orders members by folded name, and those of one name as they came.
func (c *canonicalizer) compare(a, b rank) int {
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	x, y := &c.open[a.member], &c.open[b.member]
	if n := compareFolded(c.doc[x.start+1:x.nameEnd], c.doc[y.start+1:y.nameEnd]); n != 0 {
		return n
	}
	return cmp.Compare(a.member, b.member)
}

// name reads a member's name and colon.
func (c *canonicalizer) name() error {
	if c.peek() != '"' {
		return c.unexpected()
	}
	if err := c.string(); err != nil {
		return err
	}
	if c.peek() != ':' {
		return c.unexpected()
	}
	c.at++
	return nil
}

func (c *canonicalizer) array(sel selection) error {
	if err := c.enter(); err != nil {
		return err
	}
	for i, more := 0, c.peek() != ']'; more; i++ {
		start, firstObject := len(c.doc), len(c.objects)
		below, counts := selection{}, true
		if sel != (selection{}) {
			below, counts = c.descend(sel, strconv.AppendInt(nil, int64(i), 10))
		}
		err := c.value(below)
		if err != nil {
			return err
		}
		if !counts {
			c.doc, c.objects = c.doc[:start], c.objects[:firstObject]
		}
		if more, err = c.more(']'); err != nil {
			return err
		}
	}
	c.leave(']')
	return nil
}

// enter begins an array or an object, at its bracket.
func (c *canonicalizer) enter() error {
	if c.depth++; c.depth > maxJSONDepth {
		return fmt.Errorf("JSON is nested deeper than %d at byte %d", maxJSONDepth, c.at)
	}
	c.doc = append(c.doc, c.src[c.at])
	c.at++
	return nil
}

// more reads what follows a member or an element: a comma, or nothing before
// the closing bracket.
func (c *canonicalizer) more(closing byte) (bool, error) {
	switch c.peek() {
	case ',':
		c.at++
		return true, nil
	case closing:
		return false, nil
	}
	return false, c.unexpected()
}

// leave ends an array or an object, at its bracket.
func (c *canonicalizer) leave(closing byte) {
	c.depth--
	c.doc = append(c.doc, closing)
	c.at++
}

// descend returns which pointers concern the member or element called name,
// and whether any of it counts.
func (c *canonicalizer) descend(sel selection, name []byte) (below selection, counts bool) {
	if sel == (selection{}) {
		return selection{}, true
	}
	first := len(c.pointers)
	for _, p := range c.pointers[sel.first:sel.last] {
		token, rest := p[1:], ""
		if i := strings.IndexByte(token, '/'); i >= 0 {
			token, rest = token[:i], token[i:]
		}
		if strings.Contains(token, "~") {
			token = pointerEscapes.Replace(token)
		}
		if !bytes.EqualFold(name, []byte(token)) {
			continue
		}
		if rest == "" {
			return selection{}, c.include
		}
		c.pointers = append(c.pointers, rest)
	}
	if len(c.pointers) == first {
		return selection{}, !c.include
	}
	return selection{first, len(c.pointers)}, true
}

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

// string reads a string as encoding/json does: a surrogate without its other
// half and each byte that is not UTF-8 become U+FFFD.
func (c *canonicalizer) string() error {
	c.doc = append(c.doc, '"')
	from := c.at + 1 // what is not yet in doc
	for at := from; at < len(c.src); {
		switch b := c.src[at]; {
		case b == '"':
			c.doc = append(append(c.doc, c.src[from:at]...), valueEnd)
			c.at = at + 1
			return nil
		case b == '\\':
			c.doc = append(c.doc, c.src[from:at]...)
			c.at = at
			if err := c.escape(); err != nil {
				return err
			}
			at, from = c.at, c.at
		case b < ' ':
			c.at = at
			return c.unexpected()
		case b < utf8.RuneSelf:
			at++
		default:
			r, size := utf8.DecodeRune(c.src[at:])
			if r == utf8.RuneError && size == 1 {
				c.doc = utf8.AppendRune(append(c.doc, c.src[from:at]...), r)
				from = at + 1
			}
			at += size
		}
	}
	c.at = len(c.src)
	return c.unexpected()
}

// escape reads an escape sequence, at its backslash.
func (c *canonicalizer) escape() error {
	if r, ok := c.unicodeEscape(); ok {
		if utf16.IsSurrogate(r) {
			before := c.at
			low, _ := c.unicodeEscape()
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				c.at = before
			}
		}
		c.doc = utf8.AppendRune(c.doc, r)
		return nil
	}
	c.at++
	if c.at < len(c.src) {
		if i := strings.IndexByte(`"\/bfnrt`, c.src[c.at]); i >= 0 {
			c.doc = append(c.doc, "\"\\/\b\f\n\r\t"[i])
			c.at++
			return nil
		}
	}
	return c.unexpected()
}

// unicodeEscape reads \uXXXX if it stands here.
func (c *canonicalizer) unicodeEscape() (rune, bool) {
	if len(c.src)-c.at < 6 || c.src[c.at] != '\\' || c.src[c.at+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, b := range c.src[c.at+2 : c.at+6] {
		switch {
		case isDigit(b):
			b -= '0'
		case 'a' <= b|0x20 && b|0x20 <= 'f':
			b = b | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(b)
	}
	c.at += 6
	return r, true
}

// number reads a number and writes its exact decimal value: the digits without
// zeros at either end, and the exponent of the last one if it is not 0. 100,
// 1e2 and 1000e-1 are all 1e2; zero keeps its sign. Where the exponent has
// more than 18 digits the number stays as it is spelled, which is a numeral of
// the same value.
func (c *canonicalizer) number() error {
	start := c.at
	if c.src[c.at] == '-' {
		c.at++
	}
	integer := c.digits()
	if len(integer) == 0 || integer[0] == '0' && len(integer) > 1 {
		c.at = start
		return c.unexpected()
	}
	var fraction, exponent []byte
	if c.at < len(c.src) && c.src[c.at] == '.' {
		c.at++
		if fraction = c.digits(); len(fraction) == 0 {
			return c.unexpected()
		}
	}
	negative := false
	if c.at < len(c.src) && c.src[c.at]|0x20 == 'e' {
		c.at++
		if c.at < len(c.src) && (c.src[c.at] == '+' || c.src[c.at] == '-') {
			negative = c.src[c.at] == '-'
			c.at++
		}
		if exponent = c.digits(); len(exponent) == 0 {
			return c.unexpected()
		}
		exponent = bytes.TrimLeft(exponent, "0")
	}

	fraction = bytes.TrimRight(fraction, "0")
	power := int64(-len(fraction))
	if integer[0] == '0' {
		integer, fraction = nil, bytes.TrimLeft(fraction, "0")
	} else if len(fraction) == 0 {
		significant := bytes.TrimRight(integer, "0")
		power += int64(len(integer) - len(significant))
		integer = significant
	}

	if c.src[start] == '-' {
		c.doc = append(c.doc, '-')
	}
	switch {
	case len(integer)+len(fraction) == 0:
		c.doc = append(c.doc, '0')
	case len(exponent) > 18:
		c.doc = append(c.doc, bytes.TrimPrefix(c.src[start:c.at], []byte("-"))...)
	default:
		var e int64
		for _, d := range exponent {
			e = e*10 + int64(d-'0')
		}
		if negative {
			e = -e
		}
		c.doc = append(append(c.doc, integer...), fraction...)
		if power += e; power != 0 {
			c.doc = strconv.AppendInt(append(c.doc, 'e'), power, 10)
		}
	}
	c.doc = append(c.doc, valueEnd)
	return nil
}

// digits reads as many digits as stand here.
func (c *canonicalizer) digits() []byte {
	start := c.at
	for c.at < len(c.src) && isDigit(c.src[c.at]) {
		c.at++
	}
	return c.src[start:c.at]
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func (c *canonicalizer) literal(word string) error {
	for i := range len(word) {
		if c.at >= len(c.src) || c.src[c.at] != word[i] {
			return c.unexpected()
		}
		c.at++
	}
	c.doc = append(c.doc, word[0])
	return nil
}

// peek skips white space and returns the next byte, or 0 at the end.
func (c *canonicalizer) peek() byte {
	if c.space(); c.at < len(c.src) {
		return c.src[c.at]
	}
	return 0
}

func (c *canonicalizer) space() {
	for c.at < len(c.src) && (c.src[c.at] == ' ' || c.src[c.at] == '\t' || c.src[c.at] == '\n' || c.src[c.at] == '\r') {
		c.at++
	}
}

func (c *canonicalizer) unexpected() error {
	if c.at >= len(c.src) {
		return fmt.Errorf("the JSON text ends too early, at byte %d", len(c.src))
	}
	return fmt.Errorf("not JSON at byte %d", c.at)
}

// compareFolded orders names as encoding/json compares them: names that differ
// in case alone are the same.
func compareFolded(a, b []byte) int {
	for len(a) > 0 && len(b) > 0 {
		runeA, sizeA := firstFolded(a)
		runeB, sizeB := firstFolded(b)
		if runeA != runeB {
			return cmp.Compare(runeA, runeB)
		}
		a, b = a[sizeA:], b[sizeB:]
	}
	return cmp.Compare(len(a), len(b))
}

// foldedPrefix returns the first 8 bytes of a folded name as a number. Numbers
// that differ are ordered as compareFolded orders the names.
func foldedPrefix(name []byte) uint64 {
	var ascii uint64
	for i := range 8 {
		ascii <<= 8
		if i < len(name) {
			if name[i] >= utf8.RuneSelf {
				return foldedPrefixUTF8(name)
			}
			ascii |= uint64(foldedASCII(name[i]))
		}
	}
	return ascii
}

func foldedPrefixUTF8(name []byte) uint64 {
	var b [8 + utf8.UTFMax]byte
	for n := 0; n < 8 && len(name) > 0; {
		r, size := firstFolded(name)
		n += utf8.EncodeRune(b[n:], r)
		name = name[size:]
	}
	return binary.BigEndian.Uint64(b[:])
}

// firstFolded returns the first of all runes that differ in case alone from
// the rune at the start of name, and the size of the latter.
func firstFolded(name []byte) (rune, int) {
	if name[0] < utf8.RuneSelf {
		return rune(foldedASCII(name[0])), 1
	}
	r, size := utf8.DecodeRune(name)
	first := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		first = min(first, next)
	}
	return first, size
}

func foldedASCII(b byte) byte {
	if 'a' <= b && b <= 'z' {
		return b - ('a' - 'A')
	}
	return b
}
