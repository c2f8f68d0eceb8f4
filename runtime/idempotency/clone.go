package idempotency

import (
	"reflect"
	"strings"
)

// Clone returns a deep copy of v. It is for generated code: some servers decode
// requests into strings that they overwrite with the next request. What only
// unexported fields refer to is shared.
func Clone[T any](v T) T {
	deepen(reflect.ValueOf(&v).Elem())
	return v
}

// deepen puts a copy of its own in the place of everything that v refers to. It
// is for values that a decoder has made: they have an end.
func deepen(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Clone(v.String()))
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return
		}
		own := reflect.New(v.Elem().Type())
		own.Elem().Set(v.Elem())
		deepen(own.Elem())
		if v.Kind() == reflect.Interface {
			own = own.Elem()
		}
		v.Set(own)
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		deepenElements(own)
		v.Set(own)
	case reflect.Array:
		deepenElements(v)
	case reflect.Map:
		if v.IsNil() {
			return
		}
		own := reflect.MakeMapWithSize(v.Type(), v.Len())
		for key, value := range v.Seq2() {
			own.SetMapIndex(deepened(key), deepened(value))
		}
		v.Set(own)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				deepen(f)
			}
		}
	default: // has no memory beside itself
	}
}

// deepenElements does so for a slice or an array. Numbers, bytes above all, have
// nothing to copy.
func deepenElements(v reflect.Value) {
	if v.Type().Elem().Kind() <= reflect.Complex128 {
		return
	}
	for i := range v.Len() {
		deepen(v.Index(i))
	}
}

// deepened returns a deep copy of a value that cannot be set.
func deepened(v reflect.Value) reflect.Value {
	own := reflect.New(v.Type()).Elem()
	own.Set(v)
	deepen(own)
	return own
}
