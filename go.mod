module github.com/idemgen/idemgen

go 1.25.0

require (
	github.com/getkin/kin-openapi v0.142.0
	github.com/golangci/plugin-module-register v0.1.2
	github.com/oapi-codegen/oapi-codegen/v2 v2.8.2
	github.com/rogpeppe/go-internal v1.16.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.2
	github.com/speakeasy-api/openapi v1.24.0
	golang.org/x/mod v0.39.0
	golang.org/x/tools v0.49.0
	gopkg.in/yaml.v3 v3.0.1
)

require (
	github.com/dprotaso/go-yit v0.0.0-20220510233725-9ba8df137936 // indirect
	github.com/go-openapi/jsonpointer v0.23.1 // indirect
	github.com/go-openapi/swag/jsonname v0.26.0 // indirect
	github.com/oasdiff/yaml v0.1.1 // indirect
	github.com/oasdiff/yaml3 v0.0.14 // indirect
	github.com/speakeasy-api/jsonpath v0.6.3 // indirect
	github.com/vmware-labs/yaml-jsonpath v0.3.2 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/text v0.40.0 // indirect
)
