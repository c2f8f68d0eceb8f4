// Package api holds what oapi-codegen and idemgen make of openapi.yaml.
package api

//go:generate go run github.com/idemgen/idemgen/cmd/idemgen
