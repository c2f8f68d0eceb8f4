// Package charges is the API of charges: server, and the client that bookings uses.
package charges

// idemgen.yaml says what is generated, from openapi.yaml.
//go:generate go run github.com/idemgen/idemgen/cmd/idemgen
