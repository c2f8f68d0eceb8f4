package idempotency_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// plainHandler writes its answer itself.
type plainHandler func(w http.ResponseWriter, r *http.Request) error

// servePlain serves one operation the way generated code without a strict
// server does.
func servePlain(t *testing.T, store idempotency.Store[struct{}], h plainHandler, opts ...idempotency.Option) *server {
	t.Helper()
	s := &server{events: make(chan idempotency.Event, 1000)}
	opts = append([]idempotency.Option{idempotency.WithObserver(func(_ context.Context, e idempotency.Event) { s.events <- e })}, opts...)
	edge := idempotency.NewEdge(store, idempotency.ScopeByHeader("X-Api-Key"), opts...)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Amount int }
		err := edge.Handle(w, r, &payOperation, func(call *idempotency.Call) error {
			return idempotency.DecodeJSON(call, &in)
		}, func(w http.ResponseWriter, r *http.Request, _ struct{}, _ *idempotency.Call) error {
			s.runs.Add(1)
			return h(w, r)
		})
		if err != nil {
			http.Error(w, "own: "+err.Error(), http.StatusTeapot)
		}
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// What a handler writes is kept as net/http would have sent it, and replayed.
func TestPlainAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler plainHandler
		status  int
		body    string
		header  http.Header
	}{
		"nothing": {func(http.ResponseWriter, *http.Request) error { return nil }, 200, "", nil},
		"a body alone": {func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.WriteString(w, "<p>")
			return err
		}, 200, "<p>", http.Header{"Content-Type": {"text/html; charset=utf-8"}}},
		"fields without values": {func(w http.ResponseWriter, _ *http.Request) error {
			w.Header()["Content-Type"] = nil
			w.Header()["X-None"] = []string{}
			_, err := io.WriteString(w, "<p>")
			return err
		}, 200, "<p>", http.Header{"Content-Type": {"text/html; charset=utf-8"}}},
		"a header alone": {func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Location", "/1")
			return nil
		}, 200, "", http.Header{"Location": {"/1"}}},
		"two statuses": {func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(201)
			w.WriteHeader(400)
			return nil
		}, 201, "", nil},
		"an early hint": {func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(202)
			return nil
		}, 202, "", nil},
		"a header that comes late": {func(w http.ResponseWriter, _ *http.Request) error {
			h := w.Header()
			h.Set("X-Kept", "early")
			w.WriteHeader(201)
			h["X-Kept"][0] = "late"
			h.Set("X-Other", "late")
			return nil
		}, 201, "", http.Header{"X-Kept": {"early"}, "X-Other": nil}},
		"a body that has none": {func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(204)
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
				return fmt.Errorf("write: %w", err)
			}
			return nil
		}, 204, "", nil},
		"a copy": {func(w http.ResponseWriter, r *http.Request) error {
			_, err := io.Copy(w, r.Body)
			return err
		}, 200, `{"amount":1}`, nil},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) error {
			http.Redirect(w, r, "/elsewhere", http.StatusSeeOther)
			return nil
		}, 303, "", http.Header{"Location": {"/elsewhere"}}},
		"an error of the business": {func(w http.ResponseWriter, _ *http.Request) error {
			http.Error(w, "no money", http.StatusPaymentRequired)
			return nil
		}, 402, "no money\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servePlain(t, memstore.New(), c.handler)
			s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			for i := range 2 {
				got := s.send(t, `{"amount":1}`)
				if replayed := got.header.Get("Idempotent-Replayed") == "true"; got.status != c.status || got.body != c.body || replayed != (i == 1) {
					t.Errorf("%d: %d %q, replayed %t; want %d %q", i, got.status, got.body, replayed, c.status, c.body)
				}
				for name, want := range c.header {
					if values := got.header[name]; fmt.Sprint(values) != fmt.Sprint(want) {
						t.Errorf("%d: %s: %q, want %q", i, name, values, want)
					}
				}
			}
			if s.runs.Load() != 1 {
				t.Errorf("%d runs", s.runs.Load())
			}
		})
	}
}

// An attempt that fails leaves the key free, and the caller knows.
func TestPlainFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler plainHandler
		status  int
		part    string // of the body
		outcome idempotency.Outcome
	}{
		"released": {func(w http.ResponseWriter, _ *http.Request) error {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return nil
		}, 503, "busy", idempotency.OutcomeReleased},
		"an error": {func(w http.ResponseWriter, _ *http.Request) error {
			_, _ = io.WriteString(w, "half")
			return errors.New("out of paper")
		}, 418, "own: out of paper\n", idempotency.OutcomeReleased},
		"too long": {func(w http.ResponseWriter, _ *http.Request) error {
			_, err := w.Write(make([]byte, 2<<20))
			if err == nil {
				t.Error("a long answer was taken")
			}
			return nil
		}, 500, "response_too_large", idempotency.OutcomeReleased},
		"another length": {func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Length", "5")
			_, err := io.WriteString(w, "four")
			return err
		}, 500, "internal", idempotency.OutcomeReleased},
		"flush": {func(w http.ResponseWriter, _ *http.Request) error {
			_, _ = io.WriteString(w, "half")
			if err := http.NewResponseController(w).Flush(); err == nil || !strings.Contains(err.Error(), "pay") || !strings.Contains(err.Error(), "flush") {
				t.Errorf("flush: %v", err)
			}
			if _, err := io.WriteString(w, "other half"); err == nil {
				t.Error("what follows a flush was taken")
			}
			return nil
		}, 500, "tried to flush", idempotency.OutcomeReleased},
		"hijack": {func(w http.ResponseWriter, _ *http.Request) error {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				return conn.Close()
			}
			return nil
		}, 500, "tried to hijack", idempotency.OutcomeReleased},
		"switch": {func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusSwitchingProtocols)
			return nil
		}, 500, "tried to switch protocols", idempotency.OutcomeReleased},
		"panic": {func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }, 0, "", idempotency.OutcomeReleased},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := true
			s := servePlain(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) error {
				if first {
					first = false
					return c.handler(w, r)
				}
				w.WriteHeader(201)
				return nil
			})
			if c.status == 0 {
				resp, err := s.Client().Do(payRequest(t, s))
				if err == nil {
					_ = resp.Body.Close()
					t.Errorf("status %d, want a broken connection", resp.StatusCode)
				}
			} else if got := s.send(t, `{"amount":1}`); got.status != c.status || !strings.Contains(got.body, c.part) || strings.Contains(got.body, "half") {
				t.Errorf("%d %s, want %d %s", got.status, got.body, c.status, c.part)
			}
			if o := s.outcome(t); o != c.outcome {
				t.Errorf("outcome %s, want %s", o, c.outcome)
			}
			if got := s.send(t, `{"amount":1}`); got.status != 201 || got.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("afterwards: %+v", got)
			}
		})
	}
}

func payRequest(t *testing.T, s *server) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.URL+"/pay", strings.NewReader(`{"amount":1}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {"alice"}, "Idempotency-Key": {"k1"}}
	return req
}

// Trailers would come after what is stored, so there are none.
func TestPlainTrailers(t *testing.T) {
	t.Parallel()
	s := servePlain(t, memstore.New(), func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set(http.TrailerPrefix+"X-Other", "1")
		_, err := io.WriteString(w, "all")
		w.Header().Set("X-Sum", "1")
		return err
	})
	for range 2 {
		resp, err := s.Client().Do(payRequest(t, s))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(body) != "all" || len(resp.Trailer) > 0 {
			t.Errorf("%s, trailers %v, %v", body, resp.Trailer, err)
		}
	}
}

// broken runs work and loses the database then.
type broken struct{ *memstore.Store }

func (s broken) Execute(ctx context.Context, _ idempotency.Request, work idempotency.Work[struct{}]) (idempotency.Result, error) {
	_, _ = work(ctx, struct{}{})
	return idempotency.Result{}, idempotency.ErrUnavailable
}

// A request is answered once, by the store if it has more to say than the
// handler.
func TestPlainAnswersOnce(t *testing.T) {
	t.Parallel()
	s := servePlain(t, broken{memstore.New()}, func(http.ResponseWriter, *http.Request) error { return errors.New("out of paper") })
	if got := s.send(t, `{"amount":1}`); got.status != 503 || got.code(t) != idempotency.CodeUnavailable {
		t.Errorf("%+v", got)
	}
}

// The writer of a handler is no flusher: one that looks for it finds none.
func TestPlainWriterIsNoFlusher(t *testing.T) {
	t.Parallel()
	s := servePlain(t, memstore.New(), func(w http.ResponseWriter, _ *http.Request) error {
		if _, ok := w.(http.Flusher); ok {
			t.Error("the writer is a flusher")
		}
		return nil
	})
	s.send(t, `{"amount":1}`)
}

// A goroutine that the handler leaves behind changes nothing of the answer.
func TestPlainLateWrites(t *testing.T) {
	t.Parallel()
	returned, done := make(chan struct{}), make(chan error, 1)
	s := servePlain(t, memstore.New(), func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.WriteString(w, "in time")
		go func() {
			for range 100 { // some of these race with the handler's return
				_, _ = io.WriteString(w, "!")
			}
			<-returned
			w.Header().Set("X-Late", "1")
			w.WriteHeader(500)
			_, err := io.WriteString(w, "late")
			if flush := http.NewResponseController(w).Flush(); flush == nil || !strings.Contains(flush.Error(), "has returned") {
				err = fmt.Errorf("flush: %w", errors.Join(flush, err))
			}
			done <- err
		}()
		return err
	})
	first := s.send(t, `{"amount":1}`)
	close(returned)
	if err := <-done; err == nil || !strings.HasPrefix(err.Error(), "idempotency: the handler has returned") {
		t.Errorf("late write: %v", err)
	}
	replay := s.send(t, `{"amount":1}`)
	if first.status != 200 || !strings.HasPrefix(first.body, "in time") || strings.Contains(first.body, "late") || replay.body != first.body || replay.header.Get("X-Late") != "" {
		t.Errorf("first %+v, replay %+v", first, replay)
	}
}

// Each run of a handler reads the whole body, under the run's context.
func TestPlainRuns(t *testing.T) {
	t.Parallel()
	s := servePlain(t, inRun{rerunning{memstore.New()}}, func(w http.ResponseWriter, r *http.Request) error {
		if r.Context().Value(inRun{}) == nil {
			t.Error("the context is not the run's")
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		step, err := idempotency.DeriveUUID(r.Context(), "step")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s %s", b, step)
		return err
	})
	got := s.send(t, `{"amount":1}`)
	if body, step, _ := strings.Cut(got.body, " "); got.status != 200 || body != `{"amount":1}` || len(step) != 36 {
		t.Errorf("%+v", got)
	}
	if s.runs.Load() != 2 {
		t.Errorf("%d runs, want 2", s.runs.Load())
	}
}

// What a run changes in its request is gone with the next one, which derives the
// same keys.
func TestPlainRunsHaveTheirOwnRequest(t *testing.T) {
	t.Parallel()
	var seen []string
	s := servePlain(t, rerunning{memstore.New()}, func(_ http.ResponseWriter, r *http.Request) error {
		if err := r.ParseForm(); err != nil {
			return err
		}
		step, err := idempotency.DeriveUUID(r.Context(), "step")
		seen = append(seen, fmt.Sprint(r.Header.Get("X-Trace"), r.URL, r.Form, step))
		r.Header.Del("X-Trace")
		r.URL.RawQuery = "other=1"
		r.Form.Set("other", "1")
		return err
	})
	if got := s.send(t, `{"amount":1}`, "X-Trace", "t"); got.status != 200 {
		t.Errorf("%+v", got)
	}
	if len(seen) != 2 || seen[0] != seen[1] || !strings.HasPrefix(seen[0], "t") {
		t.Errorf("%q", seen)
	}
}

// inRun gives each run a context of its own.
type inRun struct{ rerunning }

func (s inRun) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[struct{}]) (idempotency.Result, error) {
	return s.rerunning.Execute(ctx, req, func(ctx context.Context, tx struct{}) (idempotency.Response, error) {
		return work(context.WithValue(ctx, inRun{}, true), tx)
	})
}

// A body that does not decode is refused before the key is claimed.
func TestPlainBodies(t *testing.T) {
	t.Parallel()
	s := servePlain(t, memstore.New(), func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(201)
		return nil
	})
	for _, body := range []string{``, ` `, `{`, `{"amount":"1"}`, `{"amount":1}{}`} {
		if got := s.send(t, body); got.status != 400 || got.code(t) != idempotency.CodeBodyInvalid {
			t.Errorf("%s: %+v", body, got)
		}
		if o := s.outcome(t); o != idempotency.OutcomeInvalid {
			t.Errorf("%s: outcome %s", body, o)
		}
	}
	if got := s.send(t, `{"amount":1}`); got.status != 201 {
		t.Errorf("the key is in use: %+v", got)
	}
}

// A decoder of the user's own gets a request whose body nobody has read.
func TestWithJSONDecoder(t *testing.T) {
	t.Parallel()
	s := servePlain(t, memstore.New(), func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(201)
		return nil
	}, idempotency.WithJSONDecoder(func(r *http.Request, v any) error {
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		return d.Decode(v)
	}))
	for body, status := range map[string]int{`{"amount":1,"other":2}`: 400, `{"amount":1}`: 201} {
		if got := s.send(t, body); got.status != status {
			t.Errorf("%s: %+v", body, got)
		}
	}
}

// What a validator has left on the body is there for the decoder and for the
// handler.
func TestPlainValidatedValue(t *testing.T) {
	t.Parallel()
	value := func(r *http.Request) any {
		body, ok := r.Body.(interface{ ValidatedValue() any })
		if !ok {
			return nil
		}
		return body.ValidatedValue()
	}
	r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("1"))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"k"}}
	r.Body = validated{r.Body}
	var seen []any
	edge := idempotency.NewEdge(memstore.New(), idempotency.Unscoped, idempotency.WithJSONDecoder(func(r *http.Request, _ any) error {
		seen = append(seen, value(r))
		return nil
	}))
	err := edge.Handle(httptest.NewRecorder(), r, &payOperation, func(call *idempotency.Call) error {
		return idempotency.DecodeJSON(call, nil)
	}, func(_ http.ResponseWriter, r *http.Request, _ struct{}, _ *idempotency.Call) error {
		seen = append(seen, value(r))
		return nil
	})
	if err != nil || fmt.Sprint(seen) != "[5 5]" {
		t.Errorf("%v, %v", seen, err)
	}
}

// Decoders read what a strict server reads, and no body is nil where none is
// required.
func TestDecoders(t *testing.T) {
	t.Parallel()
	type encoding struct{}
	form := idempotency.FormDecoder(func(v any, form map[string][]string, _ map[string][]*multipart.FileHeader, _ map[string]encoding) error {
		color := url.Values(form).Get("color")
		if color == "" {
			return errors.New("no color")
		}
		*v.(*string) = color
		return nil
	})
	for name, c := range map[string]struct {
		contentType, body string
		required          bool
		decode            idempotency.BodyDecoder
		want              string // "<nil>" for a nil pointer, "<error>"
	}{
		"json":              {"application/json", `"a"`, true, idempotency.DecodeJSON, "a"},
		"json null":         {"application/json", `null`, true, idempotency.DecodeJSON, ""},
		"json missing":      {"application/json", ``, true, idempotency.DecodeJSON, "<error>"},
		"json, optional":    {"application/json", `"a"`, false, idempotency.DecodeJSON, "a"},
		"no json":           {"application/json", ``, false, idempotency.DecodeJSON, "<nil>"},
		"white space":       {"application/json", " \n", false, idempotency.DecodeJSON, "<nil>"},
		"half":              {"application/json", `"a`, false, idempotency.DecodeJSON, "<error>"},
		"text":              {"text/plain", " a", true, idempotency.DecodeText, " a"},
		"empty text":        {"text/plain", "", true, idempotency.DecodeText, ""},
		"no text":           {"text/plain", "", false, idempotency.DecodeText, "<nil>"},
		"form":              {"application/x-www-form-urlencoded", "color=red", true, form, "red"},
		"form without it":   {"application/x-www-form-urlencoded", "colour=red", true, form, "<error>"},
		"form in ill shape": {"application/x-www-form-urlencoded", "%zz", true, form, "<error>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			edge := idempotency.NewEdge(memstore.New(), idempotency.Unscoped)
			r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader(c.body))
			r.Header = http.Header{"Content-Type": {c.contentType}, "Idempotency-Key": {"k"}}
			got := "<nil>"
			_ = edge.Handle(httptest.NewRecorder(), r, &payOperation, func(call *idempotency.Call) error {
				var body *string
				if err := idempotency.DecodePointer(call, &body, c.required, c.decode); err != nil {
					got = "<error>"
				} else if body != nil {
					got = *body
				}
				return errors.New("enough")
			}, nil)
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Media types are compared without parameters and case.
func TestCallIs(t *testing.T) {
	t.Parallel()
	edge := idempotency.NewEdge(memstore.New(), idempotency.Unscoped)
	asked := 0
	types := map[string]string{
		"application/json":                "json",
		"application/json ;charset=utf-8": "json",
		"Application/JSON; charset=utf-8": "json",
		"application/json-seq":            "",
		"image/png":                       "image",
		"image":                           "",
		"":                                "",
	}
	for contentType, want := range types {
		r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("1"))
		r.Header = http.Header{"Content-Type": {contentType}, "Idempotency-Key": {"k"}}
		_ = edge.Handle(httptest.NewRecorder(), r, &payOperation, func(call *idempotency.Call) error {
			asked++
			if !call.Is("*/*") {
				t.Errorf("%s is none of */*", contentType)
			}
			got := ""
			switch {
			case call.Is("application/json", "text/json"):
				got = "json"
			case call.Is("image/*"):
				got = "image"
			}
			if got != want {
				t.Errorf("%s: %q, want %q", contentType, got, want)
			}
			return errors.New("enough")
		}, nil)
	}
	if asked != len(types) {
		t.Errorf("%d of %d requests were decoded", asked, len(types))
	}
}

// The files of a multipart form are removed when the handler has returned.
func TestPlainMultipartFiles(t *testing.T) {
	t.Parallel()
	var name string
	s := servePlain(t, memstore.New(), func(_ http.ResponseWriter, r *http.Request) error {
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		r.Body = io.NopCloser(strings.NewReader("--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n" + strings.Repeat("x", 1000) + "\r\n--b--\r\n"))
		if err := r.ParseMultipartForm(1); err != nil {
			return err
		}
		f, err := r.MultipartForm.File["f"][0].Open()
		if err != nil {
			return err
		}
		defer f.Close()
		file, ok := f.(*os.File)
		if !ok {
			return fmt.Errorf("%T is no file", f)
		}
		name = file.Name()
		return nil
	})
	if got := s.send(t, `{"amount":1}`); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", name, err)
	}
}

// A multipart body that a middleware has read is refused: its files would not
// count for the fingerprint.
func TestPlainMultipartReadBefore(t *testing.T) {
	t.Parallel()
	s := servePlain(t, memstore.New(), func(http.ResponseWriter, *http.Request) error { return nil })
	next := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.FormValue("_method")
		next.ServeHTTP(w, r)
	})
	const file = "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\nx\r\n--b--\r\n"
	got := s.send(t, file, "Content-Type", "multipart/form-data; boundary=b")
	if got.status != 400 || got.code(t) != idempotency.CodeBodyInvalid || !strings.Contains(got.body, "middleware") || s.runs.Load() != 0 {
		t.Errorf("%+v", got)
	}
}
