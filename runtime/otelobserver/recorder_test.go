package otelobserver_test

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// recorder is a meter provider that keeps every measurement. The SDK would do
// the same, but it would stand in the module graph of all who link the runtime.
type recorder struct {
	metricnoop.MeterProvider

	broken string // the instrument that cannot be made

	mu          sync.Mutex
	scope       string
	instruments map[string]instrument
	measured    map[string][]measurement
}

// instrument is how one was made.
type instrument struct {
	kind, unit string
	described  bool
	boundaries []float64
}

type measurement struct {
	value float64
	attrs attribute.Set
}

func newRecorder() *recorder {
	return &recorder{instruments: map[string]instrument{}, measured: map[string][]measurement{}}
}

func (r *recorder) Meter(name string, _ ...metric.MeterOption) metric.Meter {
	r.scope = name
	return meter{recorder: r}
}

func (r *recorder) made(name string, i instrument) error {
	if name == r.broken {
		return fmt.Errorf("no room for %s", name)
	}
	r.instruments[name] = i
	return nil
}

// measure drops what comes with a context that has ended, as some SDKs do.
func (r *recorder) measure(ctx context.Context, name string, value float64, attrs attribute.Set) {
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.measured[name] = append(r.measured[name], measurement{value, attrs})
}

// sums returns, for each set of attributes, how often an instrument measured
// and what the values add up to.
func (r *recorder) sums(name string) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts, totals := map[string]int{}, map[string]float64{}
	for _, m := range r.measured[name] {
		key := m.attrs.Encoded(attribute.DefaultEncoder())
		counts[key]++
		totals[key] += m.value
	}
	sums := map[string]string{}
	for key, n := range counts {
		sums[key] = fmt.Sprintf("%d measured, %g in all", n, totals[key])
	}
	return sums
}

type meter struct {
	metricnoop.Meter
	*recorder
}

func (m meter) Int64Counter(name string, opts ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	c := metric.NewInt64CounterConfig(opts...)
	err := m.made(name, instrument{"int64 counter", c.Unit(), c.Description() != "", nil})
	return int64Counter{name: name, recorder: m.recorder}, err
}

func (m meter) Int64Histogram(name string, opts ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	c := metric.NewInt64HistogramConfig(opts...)
	err := m.made(name, instrument{"int64 histogram", c.Unit(), c.Description() != "", c.ExplicitBucketBoundaries()})
	return int64Histogram{name: name, recorder: m.recorder}, err
}

func (m meter) Float64Histogram(name string, opts ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	c := metric.NewFloat64HistogramConfig(opts...)
	err := m.made(name, instrument{"float64 histogram", c.Unit(), c.Description() != "", c.ExplicitBucketBoundaries()})
	return float64Histogram{name: name, recorder: m.recorder}, err
}

type int64Counter struct {
	metricnoop.Int64Counter
	*recorder
	name string
}

func (i int64Counter) Add(ctx context.Context, n int64, opts ...metric.AddOption) {
	i.measure(ctx, i.name, float64(n), metric.NewAddConfig(opts).Attributes())
}

type int64Histogram struct {
	metricnoop.Int64Histogram
	*recorder
	name string
}

func (i int64Histogram) Record(ctx context.Context, n int64, opts ...metric.RecordOption) {
	i.measure(ctx, i.name, float64(n), metric.NewRecordConfig(opts).Attributes())
}

type float64Histogram struct {
	metricnoop.Float64Histogram
	*recorder
	name string
}

func (i float64Histogram) Record(ctx context.Context, f float64, opts ...metric.RecordOption) {
	i.measure(ctx, i.name, f, metric.NewRecordConfig(opts).Attributes())
}

// span keeps what is put on it.
type span struct {
	tracenoop.Span

	mu     sync.Mutex
	attrs  []attribute.KeyValue
	events []event
}

type event struct {
	name  string
	attrs []attribute.KeyValue
}

func (*span) IsRecording() bool { return true }

func (s *span) SetAttributes(attrs ...attribute.KeyValue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attrs = append(s.attrs, attrs...)
}

func (s *span) AddEvent(name string, opts ...trace.EventOption) {
	c := trace.NewEventConfig(opts...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event{name, c.Attributes()})
}

// encode writes attributes in the order of their keys.
func encode(attrs []attribute.KeyValue) string {
	set := attribute.NewSet(attrs...)
	return set.Encoded(attribute.DefaultEncoder())
}
