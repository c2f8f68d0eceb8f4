package idempotency

import (
	"bytes"
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

	open   []member // the members so far of objects that are not complete
	folded []byte   // the folded names of open

	// pointers are JSON Pointers (RFC 6901), each cut to what is left of it
	// below a value that is being read.
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
	foldStart, foldEnd int // in folded
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
	c.open, c.folded = c.open[:0], c.folded[:0]
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
	self, firstOpen, firstFolded := len(c.objects), len(c.open), len(c.folded)
	c.objects = append(c.objects, object{start: len(c.doc)})
	ordered := true
	for more := c.peek() != '}'; more; {
		before := c.mark()
		name, err := c.name()
		if err != nil {
			return err
		}
		m := member{span: span{start: before.doc, object: before.objects}, foldStart: len(c.folded)}
		c.folded = appendFolded(c.folded, name)
		m.foldEnd = len(c.folded)
		below, counts := c.descend(sel, name)
		if err := c.value(below); err != nil {
			return err
		}
		c.pointers = c.pointers[:before.pointers]
		if counts {
			m.end = len(c.doc)
			if last := len(c.open) - 1; last >= firstOpen && c.compare(c.open[last], m) > 0 {
				ordered = false
			}
			c.open = append(c.open, m)
		} else {
			c.drop(before)
		}
		if more, err = c.more('}'); err != nil {
			return err
		}
	}
	o := &c.objects[self]
	o.end, o.next = len(c.doc), len(c.objects)
	switch {
	case !ordered:
		members := c.open[firstOpen:]
		slices.SortFunc(members, c.compare)
		o.first = len(c.unordered)
		for _, m := range members {
			c.unordered = append(c.unordered, m.span)
		}
		o.last = len(c.unordered)
	case o.next == self+1: // nothing in it is unordered
		c.objects = c.objects[:self]
	}
	c.open, c.folded = c.open[:firstOpen], c.folded[:firstFolded]
	c.leave('}')
	return nil
}

// compare orders members by folded name, and those of one name as they came.
func (c *canonicalizer) compare(a, b member) int {
	if n := bytes.Compare(c.folded[a.foldStart:a.foldEnd], c.folded[b.foldStart:b.foldEnd]); n != 0 {
		return n
	}
	return a.start - b.start
}

// name reads a member's name and colon. The name is valid until doc grows.
func (c *canonicalizer) name() ([]byte, error) {
	start := len(c.doc)
	if c.peek() != '"' {
		return nil, c.unexpected()
	}
	if err := c.string(); err != nil {
		return nil, err
	}
	if c.peek() != ':' {
		return nil, c.unexpected()
	}
	c.at++
	return c.doc[start+1 : len(c.doc)-1], nil
}

func (c *canonicalizer) array(sel selection) error {
	if err := c.enter(); err != nil {
		return err
	}
	for i, more := 0, c.peek() != ']'; more; i++ {
		before := c.mark()
		below, counts := selection{}, true
		if sel != (selection{}) {
			below, counts = c.descend(sel, strconv.AppendInt(nil, int64(i), 10))
		}
		err := c.value(below)
		if err != nil {
			return err
		}
		c.pointers = c.pointers[:before.pointers]
		if !counts {
			c.drop(before)
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
// and whether any of it counts. The caller cuts c.pointers afterwards.
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
		if !bytes.EqualFold(name, []byte(pointerEscapes.Replace(token))) {
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

// mark is a place to go back to.
type mark struct{ doc, objects, unordered, folded, pointers int }

func (c *canonicalizer) mark() mark {
	return mark{len(c.doc), len(c.objects), len(c.unordered), len(c.folded), len(c.pointers)}
}

// drop forgets what was read since m.
func (c *canonicalizer) drop(m mark) {
	c.doc, c.objects, c.unordered, c.folded = c.doc[:m.doc], c.objects[:m.objects], c.unordered[:m.unordered], c.folded[:m.folded]
}

// string reads a string as encoding/json does: a surrogate without its other
// half and each byte that is not UTF-8 become U+FFFD.
func (c *canonicalizer) string() error {
	c.doc = append(c.doc, '"')
	c.at++
	from := c.at // what is not yet in doc
	for c.at < len(c.src) {
		switch b := c.src[c.at]; {
		case b == '"':
			c.doc = append(c.doc, c.src[from:c.at]...)
			c.doc = append(c.doc, valueEnd)
			c.at++
			return nil
		case b == '\\':
			c.doc = append(c.doc, c.src[from:c.at]...)
			if err := c.escape(); err != nil {
				return err
			}
			from = c.at
		case b < ' ':
			return c.unexpected()
		case b < utf8.RuneSelf:
			c.at++
		default:
			r, size := utf8.DecodeRune(c.src[c.at:])
			if r == utf8.RuneError && size == 1 {
				c.doc = append(c.doc, c.src[from:c.at]...)
				c.doc = utf8.AppendRune(c.doc, utf8.RuneError)
				from = c.at + 1
			}
			c.at += size
		}
	}
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

// appendFolded appends name as encoding/json compares it: names that differ in
// case alone become the same.
func appendFolded(dst, name []byte) []byte {
	for i := 0; i < len(name); {
		if b := name[i]; b < utf8.RuneSelf {
			if 'a' <= b && b <= 'z' {
				b -= 'a' - 'A'
			}
			dst = append(dst, b)
			i++
			continue
		}
		r, size := utf8.DecodeRune(name[i:])
		dst = utf8.AppendRune(dst, smallestFold(r))
		i += size
	}
	return dst
}

// smallestFold returns the first of all runes that differ from r in case alone.
func smallestFold(r rune) rune {
	smallest := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		smallest = min(smallest, next)
	}
	return smallest
}
