# Works with GNU make 3.81 and later, as macOS and Debian have it.
SHELL := /bin/bash

# Module directories. The last three run their tests with the race detector,
# which needs a C compiler; the generator has little to gain from it.
MODULES := . runtime testdata examples
RACY    := runtime testdata examples
RACE    := $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)

# A program that tests start. It needs a newer Go, and stays out of go.work.
EMULATOR := runtime/internal/testenv/kumo

GOLANGCI_VERSION := v2.15.0
GOLANGCI         := bin/golangci-lint-$(GOLANGCI_VERSION)

# What idemgen generates from, in the golden cases and the examples.
CONFIGS = $(sort $(shell find testdata/golden examples -name idemgen.yaml))

# Documents, with no markers of their own, that the generator is measured on.
IDEM_SPECS ?= ../shared/specs
SPECS      ?= $(wildcard $(IDEM_SPECS)/adyen-*.json $(IDEM_SPECS)/formance-*.yaml $(IDEM_SPECS)/github-*.json $(IDEM_SPECS)/svix-*.json)

# How much each fuzz target runs, in go test's form: a number of inputs, since
# go test now and then reports a run that time ends as failed.
FUZZTIME ?= 5000x

# Where every server is required, the versions that are promised are the ones
# that tests use.
TESTED_ON = $(if $(filter all,$(IDEM_REQUIRE)),-tested-on 'README.md#Stores')

.DEFAULT_GOAL := help

.PHONY: help
help: ## Say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Pay 50 times from 16 clients, kill the server meanwhile, and count the payments (needs only Go)
	@go generate ./examples/payments/... && go run ./examples/payments/demo

.PHONY: test
test: check-format vet lint fresh standalone fuzz unit ## Everything that CI runs: the checks below and all tests

.PHONY: unit
unit: bin/tools ## Run every module's tests on one PostgreSQL, and list what was skipped and why
	@$(if $(RACE),,echo 'no C compiler: tests run without the race detector')
	@set -o pipefail; bin/testpg -- bash -c 'status=0; \
		go test -json -timeout 20m ./... || status=1; \
		for module in $(RACY); do \
			go -C $$module test -json $(RACE) -timeout 20m ./... || status=1; \
		done; \
		exit $$status' | bin/testreport $(TESTED_ON)

.PHONY: fuzz
fuzz: ## Run every fuzz target on FUZZTIME inputs (5000x; or for a time, 10m)
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | while IFS=: read -r file func; do \
		dir=$$(dirname "$$file"); target=$${func#func }; \
		echo "fuzz $$dir $$target"; \
		go -C "$$dir" test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x . </dev/null || exit 1; \
	done

.PHONY: generate
generate: bin/tools ## Generate every file again: golden cases, examples
	@for config in $(CONFIGS); do \
		bin/idemgen -config "$$config" || exit 1; \
	done

.PHONY: fresh
fresh: bin/tools ## Fail if a generated file is not what its spec gives now
	@status=0; for config in $(CONFIGS); do \
		bin/idemgen -check -config "$$config" || status=1; \
	done; exit $$status

.PHONY: format
format: ## Format all Go files
	@gofmt -s -w .

.PHONY: check-format
check-format: ## Fail if a Go file is not formatted
	@unformatted=$$(gofmt -s -l .); \
	if [ -n "$$unformatted" ]; then printf 'run make format, for\n%s\n' "$$unformatted"; exit 1; fi

.PHONY: vet
vet: bin/tools ## Run go vet and idemgen's own checks in every module, and build the tool and the runtime for macOS and Windows
	@for module in $(MODULES); do \
		echo "vet $$module"; go -C $$module vet -vettool=$(CURDIR)/bin/idemgen ./... || exit 1; \
	done
	@for os in darwin windows; do \
		echo "build for $$os"; \
		GOOS=$$os go build ./cmd/... $$(go list ./runtime/... | grep -v /internal/) && \
		GOOS=$$os go vet ./runtime/internal/testenv/... || exit 1; \
	done

.PHONY: lint
lint: $(GOLANGCI) ## Run golangci-lint in every module (built on first use, some minutes)
	@status=0; for module in $(MODULES); do \
		echo "lint $$module"; \
		(cd $$module && $(CURDIR)/$(GOLANGCI) run --config $(CURDIR)/.golangci.yml ./...) || status=1; \
	done; exit $$status

.PHONY: standalone
standalone: ## Build and vet each module as its users get it: without go.work, and with a tidy go.mod
	@for module in $(MODULES) $(EMULATOR); do \
		echo "standalone $$module"; \
		GOWORK=off go -C $$module build -o /dev/null ./... && \
		GOWORK=off go -C $$module vet ./... && \
		GOWORK=off go -C $$module mod tidy -diff || exit 1; \
	done

.PHONY: bench
bench: bin/tools ## Measure stores against the bare transaction, the core's overhead, and the generator on SPECS
	@bin/testpg -durable -- go -C runtime test -run '^$$' -bench . -skip Sweep -benchtime 20x ./pgxstore
	@bin/testpg -durable -- go -C runtime test -run '^$$' -bench Servers -benchtime 20x ./sqlstore
	@go -C runtime test -run '^$$' -bench . -skip 'Servers|Sweep' ./idempotency ./answercodec ./memstore ./sqlstore
	@go -C runtime test -run '^$$' -bench . -benchtime 20x ./redisstore ./dynamostore
	@$(if $(SPECS),go run ./generator/internal/bench $(SPECS),echo 'the generator is not measured: name documents with SPECS=')

.PHONY: failover
failover: ## Kill PostgreSQL's primary and a Galera node under REQUESTS requests (5000), three times each, and print what clients saw
	@IDEM_TEST_REQUESTS=$(or $(REQUESTS),5000) go -C runtime test -count 3 -p 1 -parallel 1 -timeout 2h -v \
		-run 'TestPrimaryIsKilledUnderLoad|TestGaleraNodeIsKilledUnderLoad' ./pgxstore ./sqlstore | grep -v '^\[mysql\]\|^==='

.PHONY: bench-sweep
bench-sweep: bin/tools ## Measure requests beside a sweep of a million records, or of IDEM_SWEEP_RECORDS
	@bin/testpg -durable -- go -C runtime test -run '^$$' -bench Sweep -benchtime 1x -timeout 1h ./pgxstore ./sqlstore

.PHONY: clean
clean: ## Remove built tools
	@rm -rf bin

# Built anew each time: the go command knows best what is up to date.
.PHONY: bin/tools
bin/tools:
	@mkdir -p bin
	@go build -o bin/ ./cmd/idemgen ./internal/testreport ./runtime/internal/testenv/testpg

$(GOLANGCI):
	@mkdir -p bin
	@echo 'building golangci-lint $(GOLANGCI_VERSION)'
	@GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv bin/golangci-lint $(GOLANGCI)
