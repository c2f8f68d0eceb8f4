module github.com/idemgen/idemgen/testdata

go 1.25.0

replace github.com/idemgen/idemgen/runtime => ../runtime

require (
	github.com/go-chi/chi/v5 v5.5.0
	github.com/google/uuid v1.6.0
	github.com/gorilla/mux v1.8.1
	github.com/idemgen/idemgen/runtime v0.0.0
	github.com/oapi-codegen/runtime v1.8.0
)

require (
	github.com/apapsch/go-jsonmerge/v2 v2.0.0 // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
)
