module github.com/idemgen/idemgen

go 1.25.0

require (
	github.com/getkin/kin-openapi v0.142.0 // indirect
	github.com/oapi-codegen/oapi-codegen/v2 v2.8.2 // indirect
	github.com/rogpeppe/go-internal v1.16.0 // indirect
	github.com/speakeasy-api/openapi v1.24.0 // indirect
	golang.org/x/mod v0.38.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
