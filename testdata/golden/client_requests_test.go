package golden_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/idemgen/idemgen/runtime/retry"
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
	iris "github.com/idemgen/idemgen/testdata/golden/iris"
	lease "github.com/idemgen/idemgen/testdata/golden/lease"
	names "github.com/idemgen/idemgen/testdata/golden/names"
	v23 "github.com/idemgen/idemgen/testdata/golden/oapi-codegen-v2.3"
	v24 "github.com/idemgen/idemgen/testdata/golden/oapi-codegen-v2.4"
	v25 "github.com/idemgen/idemgen/testdata/golden/oapi-codegen-v2.5"
	v26 "github.com/idemgen/idemgen/testdata/golden/oapi-codegen-v2.6"
	v27 "github.com/idemgen/idemgen/testdata/golden/oapi-codegen-v2.7"
	openapi31 "github.com/idemgen/idemgen/testdata/golden/openapi-3.1"
	plainstdhttp "github.com/idemgen/idemgen/testdata/golden/plain-std-http"
	policies "github.com/idemgen/idemgen/testdata/golden/policies"
	references "github.com/idemgen/idemgen/testdata/golden/references"
	separateclient "github.com/idemgen/idemgen/testdata/golden/separate-client"
	separatefiles "github.com/idemgen/idemgen/testdata/golden/separate-files"
	stdhttp "github.com/idemgen/idemgen/testdata/golden/std-http"
	webhooks "github.com/idemgen/idemgen/testdata/golden/webhooks"
)

// clients make both clients of a golden case for the server at an address.
var clients = map[string]func(address string) (ours, theirs reflect.Value, err error){
	"body-key":          both(bodykey.NewIdempotentClient, bodykey.NewClientWithResponses),
	"chi":               both(chi.NewIdempotentClient, chi.NewClientWithResponses),
	"client":            both(client.NewIdempotentClient, client.NewClientWithResponses),
	"dot-import":        both(dotimport.NewIdempotentClient, dotimport.NewClientWithResponses),
	"echo":              both(echo.NewIdempotentClient, echo.NewClientWithResponses),
	"echo5":             both(echo5.NewIdempotentClient, echo5.NewClientWithResponses),
	"fiber":             both(fiber.NewIdempotentClient, fiber.NewClientWithResponses),
	"fiber3":            both(fiber3.NewIdempotentClient, fiber3.NewClientWithResponses),
	"gin":               both(gin.NewIdempotentClient, gin.NewClientWithResponses),
	"gorilla":           both(gorilla.NewIdempotentClient, gorilla.NewClientWithResponses),
	"hostile":           both(hostile.NewIdempotentClient, hostile.NewClientWithResponses),
	"iris":              both(iris.NewIdempotentClient, iris.NewClientWithResponses),
	"lease":             both(lease.NewIdempotentClient, lease.NewClientWithResponses),
	"names":             both(names.NewIdempotentClient, names.NewClientWithResponses),
	"oapi-codegen-v2.3": both(v23.NewIdempotentClient, v23.NewClientWithResponses),
	"oapi-codegen-v2.4": both(v24.NewIdempotentClient, v24.NewClientWithResponses),
	"oapi-codegen-v2.5": both(v25.NewIdempotentClient, v25.NewClientWithResponses),
	"oapi-codegen-v2.6": both(v26.NewIdempotentClient, v26.NewClientWithResponses),
	"oapi-codegen-v2.7": both(v27.NewIdempotentClient, v27.NewClientWithResponses),
	"openapi-3.1":       both(openapi31.NewIdempotentClient, openapi31.NewClientWithResponses),
	"plain-std-http":    both(plainstdhttp.NewIdempotentClient, plainstdhttp.NewClientWithResponses),
	"policies":          both(policies.NewIdempotentClient, policies.NewClientWithResponses),
	"references":        both(references.NewIdempotentClient, references.NewClientWithResponses),
	"separate-client":   both(separateclient.NewIdempotentClient, separateclient.NewClientWithResponses),
	"separate-files":    both(separatefiles.NewIdempotentClient, separatefiles.NewClientWithResponses),
	"std-http":          both(stdhttp.NewIdempotentClient, stdhttp.NewClientWithResponses),
	"webhooks":          both(webhooks.NewIdempotentClient, webhooks.NewClientWithResponses),
}

func both[O, T, Option any](
	newOurs func(string, ...retry.Option) (O, error), newTheirs func(string, ...Option) (T, error),
) func(string) (reflect.Value, reflect.Value, error) {
	return func(address string) (ours, theirs reflect.Value, err error) {
		o, err := newOurs(address)
		if err != nil {
			return ours, theirs, err
		}
		t, err := newTheirs(address)
		return reflect.ValueOf(o), reflect.ValueOf(t), err
	}
}

// TestClientRequests calls every marked operation of every golden client
// through IdempotentClient and through oapi-codegen's own client, with the same
// input, all of it set: what arrives at a server is the same but for the key.
// Bodies that are streams are left to the test of std-http, and those that hold
// the key to that of body-key.
func TestClientRequests(t *testing.T) {
	t.Parallel()
	for name, newClients := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := new(recorder)
			srv := httptest.NewServer(rec)
			t.Cleanup(srv.Close)
			ours, theirs, err := newClients(srv.URL + "/v1")
			if err != nil {
				t.Fatal(err)
			}
			compared := 0
			for i := range ours.NumMethod() {
				method := ours.Type().Method(i)
				requestType := method.Type.In(min(2, method.Type.NumIn()-1))
				if _, marked := requestType.MethodByName("Input"); !marked || operation(t, requestType).Key.Body != "" {
					continue
				}
				for _, input := range inputs(t, requestType) {
					want := rec.sent(func() { callTheirs(t, theirs, method, input) })
					got := rec.sent(func() { callOurs(t, ours.Method(i), requestType, input) })
					key := operation(t, requestType).Key.Header
					if len(got) != 1 || got[0].Header.Get(key) != keyOf(t, requestType) {
						t.Fatalf("%s sends %+v", method.Name, got)
					}
					for _, r := range append(got, want...) { // a required key that is not set is sent empty
						r.Header.Del(key)
					}
					if !reflect.DeepEqual(got, want) {
						t.Errorf("%s sends\n%+v, oapi-codegen's client\n%+v", method.Name, got, want)
					}
					compared++
				}
			}
			if compared == 0 {
				t.Error("nothing is compared")
			}
		})
	}
}

// received is what a server sees of a request.
type received struct {
	Method, Target string
	Header         http.Header
	Body           string
	Length         int64
}

// recorder answers every request with 204.
type recorder struct {
	mu  sync.Mutex
	all []received
}

func (rec *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if r.Header.Get("Content-Type") == "" {
		r.Header.Del("Content-Type") // oapi-codegen's client sends an empty one without a body
	}
	rec.all = append(rec.all, received{r.Method, r.RequestURI, r.Header, string(body), r.ContentLength})
	w.WriteHeader(http.StatusNoContent)
}

// sent returns what has arrived during a call.
func (rec *recorder) sent(call func()) []received {
	call()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	all := rec.all
	rec.all = nil
	return all
}

// inputs returns inputs of an operation with everything set and one body each,
// and one without a body where that is optional; none if a body is a stream.
func inputs(t *testing.T, requestType reflect.Type) []reflect.Value {
	t.Helper()
	typ := resultOf(t, requestType, "Input")
	if hasStream(typ) {
		return nil
	}
	full := reflect.New(typ).Elem()
	fill(full)
	if params := full.FieldByName("Params"); params.IsValid() {
		for i := range params.NumField() { // the key is not among the parameters
			name, _, _ := strings.Cut(params.Type().Field(i).Tag.Get("json"), ",")
			if strings.EqualFold(name, operation(t, requestType).Key.Header) {
				params.Field(i).SetZero()
			}
		}
	}
	without := reflect.New(typ).Elem()
	without.Set(full)
	var all []reflect.Value
	for i := range typ.NumField() {
		if isBody(typ.Field(i)) {
			without.Field(i).SetZero()
		}
	}
	for i := range typ.NumField() {
		if isBody(typ.Field(i)) {
			input := reflect.New(typ).Elem()
			input.Set(without)
			input.Field(i).Set(full.Field(i))
			all = append(all, input)
		}
	}
	if len(all) == 0 || len(all) == 1 && without.FieldByName("Body").Kind() == reflect.Pointer {
		all = append(all, without)
	}
	return all
}

func isBody(f reflect.StructField) bool { return strings.HasSuffix(f.Name, "Body") }

// callOurs makes the request of an input and sends it. A request that could be
// stored is made from what is stored, as only its package has the constructor.
func callOurs(t *testing.T, method reflect.Value, requestType reflect.Type, input reflect.Value) {
	t.Helper()
	request := reflect.New(requestType)
	stored, err := json.Marshal(map[string]any{"operation": operation(t, requestType).ID, "idempotency_key": keyOf(t, requestType), "input": input.Interface()})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(stored, request.Interface()); err != nil {
		t.Fatal(err)
	}
	results := method.Call([]reflect.Value{reflect.ValueOf(context.Background()), request.Elem()})
	if !results[1].IsNil() {
		t.Fatal(results[1])
	}
}

// callTheirs calls the method that has the same result and takes the input.
func callTheirs(t *testing.T, client reflect.Value, ours reflect.Method, input reflect.Value) {
	t.Helper()
	for i := range client.NumMethod() {
		method := client.Type().Method(i)
		if method.Type.NumOut() != 2 || method.Type.Out(0) != ours.Type.Out(0) {
			continue
		}
		suffix := strings.TrimSuffix(strings.TrimPrefix(method.Name, ours.Name), "WithResponse")
		args := arguments(method.Type, suffix, input)
		if args == nil {
			continue
		}
		if results := client.Method(i).Call(args); !results[1].IsNil() {
			t.Fatal(results[1])
		}
		return
	}
	t.Fatalf("no method of oapi-codegen's client takes %+v", input)
}

// arguments returns the context and what is set of an input, or nil if a method
// takes something else. Its suffix says which body it takes.
func arguments(method reflect.Type, suffix string, input reflect.Value) []reflect.Value {
	args := []reflect.Value{reflect.ValueOf(context.Background())}
	hasBody := false
	for i := range input.NumField() {
		field, name := input.Field(i), input.Type().Field(i).Name
		switch {
		case name == "Params":
			field = field.Addr()
		case isBody(input.Type().Field(i)):
			if field.IsZero() {
				continue
			}
			if name != "Body" && suffix != strings.TrimPrefix("With"+name, "WithJSONBody") {
				return nil
			}
			hasBody = true
			if field.Kind() == reflect.Pointer {
				field = field.Elem()
			}
		}
		args = append(args, field)
	}
	if suffix == "WithBody" && !hasBody {
		args = append(args, reflect.ValueOf(""), reflect.Zero(reflect.TypeFor[io.Reader]()))
	}
	if len(args) != method.NumIn()-2 { // without the receiver and the editors
		return nil
	}
	for i, arg := range args {
		if !arg.Type().AssignableTo(method.In(i + 1)) {
			return nil
		}
	}
	return args
}
