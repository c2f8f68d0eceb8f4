// Package otelobserver reports what idempotent servers and clients do to
// OpenTelemetry: metrics through a meter provider, and attributes and events
// on the span of the context that a request or a call has, such as the one of
// the otelhttp instrumentation. It starts no spans.
//
//	observer, err := otelobserver.Server(otel.GetMeterProvider())
//	...
//	handler := api.NewIdempotentHandler(service, store, scope,
//		idempotency.WithObserver(observer))
//
// Keys and scopes never appear, and neither do the texts of errors. Every
// attribute of a metric takes few values: operations are those of the document,
// codes that a foreign server makes up are counted together, and statuses have
// three digits.
//
// Names follow OpenTelemetry's Semantic Conventions 1.23.0, the first in which
// those of HTTP are stable: error.type, http.response.status_code and
// http.request.resend_count mean what they mean there. Durations are in
// seconds. docs/observability.md lists all names.
package otelobserver

import (
	"errors"
	"runtime/debug"

	"go.opentelemetry.io/otel/metric"
)

// scope is the instrumentation scope of all metrics. Its version is the module's.
const (
	scope      = modulePath + "/otelobserver"
	modulePath = "github.com/idemgen/idemgen/runtime"
)

// meterOf returns the meter of a provider. A forgotten provider is an error:
// the global one is used where the caller names it.
func meterOf(provider metric.MeterProvider) (metric.Meter, error) {
	if provider == nil {
		return nil, errors.New("otelobserver: the meter provider is nil; give otel.GetMeterProvider() for the global one, or noop.NewMeterProvider() for span attributes alone")
	}
	version := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = versionIn(info)
	}
	return provider.Meter(scope, metric.WithInstrumentationVersion(version)), nil
}

// versionIn returns the version of this module in a program, "" where it is built
// from a directory.
func versionIn(program *debug.BuildInfo) string {
	for _, m := range program.Deps {
		if m.Path != modulePath {
			continue
		}
		if m.Replace != nil {
			return m.Replace.Version
		}
		return m.Version
	}
	return ""
}
