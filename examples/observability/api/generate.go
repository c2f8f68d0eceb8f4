package api

// idemgen.yaml says what is generated, from ../openapi.yaml.
//go:generate go run github.com/idemgen/idemgen/cmd/idemgen
