package golden_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	optional "github.com/idemgen/idemgen/testdata/golden/adoption-optional"
	required "github.com/idemgen/idemgen/testdata/golden/adoption-required"
	bodykey "github.com/idemgen/idemgen/testdata/golden/body-key"
	chi "github.com/idemgen/idemgen/testdata/golden/chi"
	client "github.com/idemgen/idemgen/testdata/golden/client"
	dotimport "github.com/idemgen/idemgen/testdata/golden/dot-import"
	echo "github.com/idemgen/idemgen/testdata/golden/echo"
	echo5 "github.com/idemgen/idemgen/testdata/golden/echo5"
	fiber "github.com/idemgen/idemgen/testdata/golden/fiber"
	fiber3 "github.com/idemgen/idemgen/testdata/golden/fiber3"
	gin "github.com/idemgen/idemgen/testdata/golden/gin"
	gorilla "github.com/idemgen/idemgen/testdata/golden/gorilla"
	hostile "github.com/idemgen/idemgen/testdata/golden/hostile"
	initialisms "github.com/idemgen/idemgen/testdata/golden/initialisms"
	iris "github.com/idemgen/idemgen/testdata/golden/iris"
	lease "github.com/idemgen/idemgen/testdata/golden/lease"
	leaseecho "github.com/idemgen/idemgen/testdata/golden/lease-echo"
	leasefiber "github.com/idemgen/idemgen/testdata/golden/lease-fiber"
	leasegin "github.com/idemgen/idemgen/testdata/golden/lease-gin"
	leaseiris "github.com/idemgen/idemgen/testdata/golden/lease-iris"
	names "github.com/idemgen/idemgen/testdata/golden/names"
	v23 "github.com/idemgen/idemgen/testdata/golden/oapi-codegen-v2.3"
	v24 "github.com/idemgen/idemgen/testdata/golden/oapi-codegen-v2.4"
	v25 "github.com/idemgen/idemgen/testdata/golden/oapi-codegen-v2.5"
	v26 "github.com/idemgen/idemgen/testdata/golden/oapi-codegen-v2.6"
	v27 "github.com/idemgen/idemgen/testdata/golden/oapi-codegen-v2.7"
	openapi31 "github.com/idemgen/idemgen/testdata/golden/openapi-3.1"
	plainbodykey "github.com/idemgen/idemgen/testdata/golden/plain-body-key"
	plainchi "github.com/idemgen/idemgen/testdata/golden/plain-chi"
	plaindeclared "github.com/idemgen/idemgen/testdata/golden/plain-declared"
	plaindotimport "github.com/idemgen/idemgen/testdata/golden/plain-dot-import"
	plainecho "github.com/idemgen/idemgen/testdata/golden/plain-echo"
	plainecho5 "github.com/idemgen/idemgen/testdata/golden/plain-echo5"
	plainfiber "github.com/idemgen/idemgen/testdata/golden/plain-fiber"
	plainfiber3 "github.com/idemgen/idemgen/testdata/golden/plain-fiber3"
	plaingin "github.com/idemgen/idemgen/testdata/golden/plain-gin"
	plaingorilla "github.com/idemgen/idemgen/testdata/golden/plain-gorilla"
	plainiris "github.com/idemgen/idemgen/testdata/golden/plain-iris"
	plainlease "github.com/idemgen/idemgen/testdata/golden/plain-lease"
	plainnames "github.com/idemgen/idemgen/testdata/golden/plain-names"
	plainstdhttp "github.com/idemgen/idemgen/testdata/golden/plain-std-http"
	plainv23 "github.com/idemgen/idemgen/testdata/golden/plain-v2.3"
	policies "github.com/idemgen/idemgen/testdata/golden/policies"
	references "github.com/idemgen/idemgen/testdata/golden/references"
	separateclient "github.com/idemgen/idemgen/testdata/golden/separate-client"
	separatefiles "github.com/idemgen/idemgen/testdata/golden/separate-files"
	separateserver "github.com/idemgen/idemgen/testdata/golden/separate-server"
	stdhttp "github.com/idemgen/idemgen/testdata/golden/std-http"
	webhooks "github.com/idemgen/idemgen/testdata/golden/webhooks"
	webhooksalone "github.com/idemgen/idemgen/testdata/golden/webhooks-alone"
	webhooksecho "github.com/idemgen/idemgen/testdata/golden/webhooks-echo"
	webhooksecho5 "github.com/idemgen/idemgen/testdata/golden/webhooks-echo5"
	webhooksfiber "github.com/idemgen/idemgen/testdata/golden/webhooks-fiber"
	webhooksfiber3 "github.com/idemgen/idemgen/testdata/golden/webhooks-fiber3"
	webhooksgin "github.com/idemgen/idemgen/testdata/golden/webhooks-gin"
	webhooksiris "github.com/idemgen/idemgen/testdata/golden/webhooks-iris"
)

// interfaces are what is generated for the handlers of each golden case, or for
// its callers. Their methods take every request type.
var interfaces = map[string]reflect.Type{
	"adoption-optional": reflect.TypeFor[optional.IdempotentServer[struct{}]](),
	"adoption-required": reflect.TypeFor[required.IdempotentServer[struct{}]](),
	"body-key":          reflect.TypeFor[bodykey.IdempotentServer[struct{}]](),
	"chi":               reflect.TypeFor[chi.IdempotentServer[struct{}]](),
	"client":            reflect.TypeFor[client.IdempotentClient](),
	"dot-import":        reflect.TypeFor[dotimport.IdempotentServer[struct{}]](),
	"echo":              reflect.TypeFor[echo.IdempotentServer[struct{}]](),
	"echo5":             reflect.TypeFor[echo5.IdempotentServer[struct{}]](),
	"fiber":             reflect.TypeFor[fiber.IdempotentServer[struct{}]](),
	"fiber3":            reflect.TypeFor[fiber3.IdempotentServer[struct{}]](),
	"gin":               reflect.TypeFor[gin.IdempotentServer[struct{}]](),
	"gorilla":           reflect.TypeFor[gorilla.IdempotentServer[struct{}]](),
	"hostile":           reflect.TypeFor[hostile.IdempotentServer[struct{}]](),
	"initialisms":       reflect.TypeFor[initialisms.IdempotentServer[struct{}]](),
	"iris":              reflect.TypeFor[iris.IdempotentServer[struct{}]](),
	"lease":             reflect.TypeFor[lease.IdempotentServer[struct{}]](),
	"lease-echo":        reflect.TypeFor[leaseecho.IdempotentServer[struct{}]](),
	"lease-fiber":       reflect.TypeFor[leasefiber.IdempotentServer[struct{}]](),
	"lease-gin":         reflect.TypeFor[leasegin.IdempotentServer[struct{}]](),
	"lease-iris":        reflect.TypeFor[leaseiris.IdempotentServer[struct{}]](),
	"names":             reflect.TypeFor[names.IdempotentServer[struct{}]](),
	"oapi-codegen-v2.3": reflect.TypeFor[v23.IdempotentServer[struct{}]](),
	"oapi-codegen-v2.4": reflect.TypeFor[v24.IdempotentServer[struct{}]](),
	"oapi-codegen-v2.5": reflect.TypeFor[v25.IdempotentServer[struct{}]](),
	"oapi-codegen-v2.6": reflect.TypeFor[v26.IdempotentServer[struct{}]](),
	"oapi-codegen-v2.7": reflect.TypeFor[v27.IdempotentServer[struct{}]](),
	"openapi-3.1":       reflect.TypeFor[openapi31.IdempotentServer[struct{}]](),
	"plain-body-key":    reflect.TypeFor[plainbodykey.IdempotentServer[struct{}]](),
	"plain-chi":         reflect.TypeFor[plainchi.IdempotentServer[struct{}]](),
	"plain-declared":    reflect.TypeFor[plaindeclared.IdempotentServer[struct{}]](),
	"plain-dot-import":  reflect.TypeFor[plaindotimport.IdempotentServer[struct{}]](),
	"plain-echo":        reflect.TypeFor[plainecho.IdempotentServer[struct{}]](),
	"plain-echo5":       reflect.TypeFor[plainecho5.IdempotentServer[struct{}]](),
	"plain-fiber":       reflect.TypeFor[plainfiber.IdempotentServer[struct{}]](),
	"plain-fiber3":      reflect.TypeFor[plainfiber3.IdempotentServer[struct{}]](),
	"plain-gin":         reflect.TypeFor[plaingin.IdempotentServer[struct{}]](),
	"plain-gorilla":     reflect.TypeFor[plaingorilla.IdempotentServer[struct{}]](),
	"plain-iris":        reflect.TypeFor[plainiris.IdempotentServer[struct{}]](),
	"plain-lease":       reflect.TypeFor[plainlease.IdempotentServer[struct{}]](),
	"plain-names":       reflect.TypeFor[plainnames.IdempotentServer[struct{}]](),
	"plain-std-http":    reflect.TypeFor[plainstdhttp.IdempotentServer[struct{}]](),
	"plain-v2.3":        reflect.TypeFor[plainv23.IdempotentServer[struct{}]](),
	"policies":          reflect.TypeFor[policies.IdempotentServer[struct{}]](),
	"references":        reflect.TypeFor[references.IdempotentServer[struct{}]](),
	"separate-client":   reflect.TypeFor[separateclient.IdempotentClient](),
	"separate-files":    reflect.TypeFor[separatefiles.IdempotentServer[struct{}]](),
	"separate-server":   reflect.TypeFor[separateserver.IdempotentServer[struct{}]](),
	"std-http":          reflect.TypeFor[stdhttp.IdempotentServer[struct{}]](),
	"webhooks":          reflect.TypeFor[withReceivers](),
	"webhooks-alone":    reflect.TypeFor[webhooksalone.IdempotentWebhookReceiver[struct{}]](),
	"webhooks-echo":     reflect.TypeFor[webhooksecho.IdempotentWebhookReceiver[struct{}]](),
	"webhooks-echo5":    reflect.TypeFor[webhooksecho5.IdempotentWebhookReceiver[struct{}]](),
	"webhooks-fiber":    reflect.TypeFor[webhooksfiber.IdempotentWebhookReceiver[struct{}]](),
	"webhooks-fiber3":   reflect.TypeFor[webhooksfiber3.IdempotentWebhookReceiver[struct{}]](),
	"webhooks-gin":      reflect.TypeFor[webhooksgin.IdempotentWebhookReceiver[struct{}]](),
	"webhooks-iris":     reflect.TypeFor[webhooksiris.IdempotentWebhookReceiver[struct{}]](),
}

// withReceivers are all handlers of a package that receives webhooks and callbacks.
type withReceivers interface {
	webhooks.IdempotentServer[struct{}]
	webhooks.IdempotentWebhookReceiver[struct{}]
	webhooks.IdempotentCallbackReceiver[struct{}]
}

func TestEveryCaseIsHere(t *testing.T) {
	t.Parallel()
	configs, err := filepath.Glob("*/idemgen.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range configs {
		if name := filepath.Base(filepath.Dir(path)); interfaces[name] == nil {
			t.Errorf("interfaces lacks %s", name)
		}
	}
}

// TestRequests takes every request type of every golden case through what its
// users do with it, with all fields of its input set.
func TestRequests(t *testing.T) {
	t.Parallel()
	for name, methods := range interfaces {
		marked := 0
		for i := range methods.NumMethod() {
			method := methods.Method(i)
			for j := range method.Type.NumIn() {
				requestType := method.Type.In(j)
				if _, isRequest := requestType.MethodByName("Input"); !isRequest {
					continue
				}
				marked++
				t.Run(name+"/"+method.Name, func(t *testing.T) {
					t.Parallel()
					testRequest(t, requestType)
				})
			}
		}
		if marked == 0 {
			t.Errorf("%s has no marked operations", name)
		}
	}
}

// secret is in every text of an input, and no part of a key.
const secret = "s3cr3t"

func testRequest(t *testing.T, requestType reflect.Type) {
	t.Helper()
	inputType := resultOf(t, requestType, "Input")
	op := operation(t, requestType)
	input := reflect.New(inputType)
	fill(input.Elem())
	key := keyOf(t, requestType)
	stored, err := json.Marshal(map[string]any{"operation": op.ID, "idempotency_key": key, "input": input.Interface()})
	if err != nil {
		t.Fatal(err)
	}
	made := reflect.New(requestType)
	if !refusesZero(made.Interface()) {
		t.Error("the zero request is stored")
	}
	if requestType.Comparable() {
		t.Error("compares with ==")
	}

	if hasStream(inputType) {
		if err := json.Unmarshal(stored, made.Interface()); err == nil || !strings.Contains(err.Error(), "stream") {
			t.Errorf("a request with a stream is read: %v", err)
		}
		if data, err := json.Marshal(made.Interface()); err == nil || !strings.Contains(err.Error(), "stream") {
			t.Errorf("a request with a stream is stored as %s, %v", data, err)
		}
		return
	}
	if err := json.Unmarshal(stored, made.Interface()); err != nil {
		t.Fatalf("%s: %v", stored, err)
	}
	if got := made.MethodByName("Input").Call(nil)[0].Interface(); !reflect.DeepEqual(got, input.Elem().Interface()) {
		t.Errorf("%s has the input %+v", stored, got)
	}
	data, err := json.Marshal(made.Interface())
	again := reflect.New(requestType)
	if err != nil || json.Unmarshal(data, again.Interface()) != nil || !equal(again, made) {
		t.Errorf("stored as %s, %v", data, err)
	}
	if equal(made, reflect.New(requestType)) {
		t.Error("equals the zero request")
	}
	refuses(t, requestType, stored)
	printsNothing(t, made)
	losesNothingQuietly(t, made)
}

// refuses checks that a stored request which is not whole, or another
// operation's, is not read and changes nothing.
func refuses(t *testing.T, requestType reflect.Type, stored []byte) {
	t.Helper()
	for what, change := range map[string]func(members map[string]any){
		"without a key":                func(m map[string]any) { delete(m, "idempotency_key") },
		"with a null key":              func(m map[string]any) { m["idempotency_key"] = nil },
		"with an empty key":            func(m map[string]any) { m["idempotency_key"] = "" },
		"without an operation":         func(m map[string]any) { delete(m, "operation") },
		"of another operation":         func(m map[string]any) { m["operation"] = "another" },
		"without an input":             func(m map[string]any) { delete(m, "input") },
		"with a null input":            func(m map[string]any) { m["input"] = nil },
		"with an unknown member":       func(m map[string]any) { m["more"] = 1 },
		"with an unknown input member": func(m map[string]any) { m["input"].(map[string]any)["Unknown"] = 1 },
	} {
		var members map[string]any
		if err := json.Unmarshal(stored, &members); err != nil {
			t.Fatal(err)
		}
		change(members)
		data, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		into := reflect.New(requestType)
		if err := json.Unmarshal(data, into.Interface()); err == nil || !equal(into, reflect.New(requestType)) {
			t.Errorf("a request %s is read: %s, %v", what, data, err)
		}
	}
	doubled := bytes.Replace(stored, []byte(`{`), []byte(`{"idempotency_key":"k2",`), 1)
	if err := json.Unmarshal(doubled, reflect.New(requestType).Interface()); err == nil {
		t.Errorf("a request with two keys is read: %s", doubled)
	}
}

// printsNothing checks that no way to print a request, or what holds it, shows
// its input, and that the usual ones show its key.
func printsNothing(t *testing.T, made reflect.Value) {
	t.Helper()
	type job struct{ request any }
	type order struct{ Request any }
	v := made.Elem().Interface()
	for _, holder := range []any{v, made.Interface(), []any{v}, order{v}, job{v}, job{made.Interface()}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if s := fmt.Sprintf(verb, holder); strings.Contains(s, secret) || strings.Contains(s, fmt.Sprintf("%x", secret)) {
				t.Errorf("%s prints %T as %s", verb, holder, s)
			}
		}
	}
	key := made.Elem().FieldByName("IdempotencyKey").Interface().(fmt.Stringer).String()
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("", "request", v, "pointer", made.Interface())
	slog.New(slog.NewTextHandler(&out, nil)).Info("", "request", v, "holder", order{v})
	for what, s := range map[string]string{"log": out.String(), "text": fmt.Sprint(v), "text of a holder": fmt.Sprintf("%+v", order{v})} {
		if strings.Contains(s, secret) || !strings.Contains(s, key) {
			t.Errorf("%s: %s", what, s)
		}
	}
}

// losesNothingQuietly checks that a request which went through an encoding that
// knows exported fields alone cannot be used as if it were whole.
func losesNothingQuietly(t *testing.T, made reflect.Value) {
	t.Helper()
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(made.Interface()); err == nil {
		t.Errorf("a gob without the input: %q", out.String())
	}
	data, err := xml.Marshal(made.Interface())
	if err != nil {
		return
	}
	lost := reflect.New(made.Type().Elem())
	if err := xml.Unmarshal(data, lost.Interface()); err != nil {
		return
	}
	if equal(lost, made) || !refusesZero(lost.Interface()) {
		t.Errorf("%s is taken for a whole request", data)
	}
}

// refusesZero reports whether a request that no constructor made is refused.
func refusesZero(request any) bool {
	_, err := json.Marshal(request)
	return err != nil
}

// equal calls the method Equal that go-cmp looks for: one of T that takes a T.
func equal(a, b reflect.Value) bool {
	method := a.Elem().MethodByName("Equal")
	if !method.IsValid() || method.Type().NumIn() != 1 || method.Type().In(0) != a.Type().Elem() {
		panic(fmt.Sprintf("%v has no method Equal that takes another", a.Type().Elem()))
	}
	return method.Call([]reflect.Value{b.Elem()})[0].Bool()
}

func resultOf(t *testing.T, typ reflect.Type, method string) reflect.Type {
	t.Helper()
	m, found := typ.MethodByName(method)
	if !found {
		t.Fatalf("%v has no method %s", typ, method)
	}
	return m.Type.Out(0)
}

// operation returns the operation that the type of a request's key names.
func operation(t *testing.T, requestType reflect.Type) *idempotency.Operation {
	t.Helper()
	field, _ := requestType.FieldByName("IdempotencyKey")
	op, ok := reflect.TypeAssert[idempotency.OpType](reflect.Zero(field.Type.Field(0).Type.Elem()))
	if !ok {
		t.Fatalf("%v has no key of an operation", requestType)
	}
	return op.Operation()
}

// keyOf returns a text that the key of a request takes.
func keyOf(t *testing.T, requestType reflect.Type) string {
	t.Helper()
	field, _ := requestType.FieldByName("IdempotencyKey")
	var errs []error
	for _, text := range []string{"01890a5d-ac96-774b-bcce-b302099a8057", "k1"} {
		err := reflect.New(field.Type).Interface().(interface{ UnmarshalText(text []byte) error }).UnmarshalText([]byte(text))
		if err == nil {
			return text
		}
		errs = append(errs, err)
	}
	t.Fatal(errors.Join(errs...))
	return ""
}

func hasStream(input reflect.Type) bool {
	for i := range input.NumField() {
		if input.Field(i).Type == reflect.TypeFor[io.Reader]() {
			return true
		}
	}
	return false
}

// fill sets everything in v that can be set, so that what an encoding leaves out
// is seen. A type inside itself stays empty.
func fill(v reflect.Value) { fillWithin(v, nil) }

func fillWithin(v reflect.Value, outer []reflect.Type) {
	if slices.Contains(outer, v.Type()) {
		return
	}
	outer = append(slices.Clip(outer), v.Type())
	fill := func(v reflect.Value) { fillWithin(v, outer) }
	switch v.Kind() {
	case reflect.String:
		v.SetString(secret + "@mail.example") // an address too, for the types that check it
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if union, ok := reflect.TypeAssert[json.Unmarshaler](v.Addr()); ok && json.Unmarshal([]byte(`{"text":"`+secret+`"}`), union) == nil {
			return // a union keeps what it has read
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(secret))
		}
	}
}
