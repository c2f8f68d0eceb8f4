package main

const overview = `idemgen makes API operations safe to retry.

Mark an operation in your OpenAPI document:

    paths:
      /payments:
        post:
          operationId: createPayment
          x-idempotent: true

Then run idemgen beside oapi-codegen. It generates, for each marked operation, a
request type with a key, and a server that runs your handler in a transaction,
stores its answer in that same transaction, and replays it to every retry.

Usage:

    idemgen                   generate, as idemgen.yaml says
    idemgen -check            exit 1 if a generated file is stale (for CI)
    idemgen -check -against OLD
                              exit 1 if clients or live keys notice what has
                              changed since an older document
    idemgen explain           show every operation, its policy, and why
    idemgen explain CODE      show what a finding with this code means
    idemgen contract          print the document with all that clients see of keys
    idemgen init              write idemgen.yaml and a go:generate line
    idemgen version           print the version
    idemgen help COMMAND      show the flags of generate, explain, contract or init
    idemgen help vet          show what go vet finds with idemgen as its tool

Start with: idemgen init
`

const generateHelp = `Usage: idemgen [generate] [flags]

Reads the config, the OpenAPI document and the Go code that oapi-codegen made
from it, and writes the code for the marked operations. On any error no file is
touched. Files that are up to date are not touched, and only files written by a
generator are ever replaced. Where clients or live keys notice what has changed
in them, a warning says so.

    -config FILE    the config (default idemgen.yaml)
    -check          write nothing; exit 1 and print a diff if a file is not fresh,
                    and say what of it clients and live keys notice
    -against FILE   with -check: compare with an older document, or the document
                    of an older config, and with no generated code; exit 1 if a
                    client or a live key notices a change
    -n              write nothing; say what would be written
    -v              also say what became of each file
    -q              print nothing but findings
    -format FORMAT  of findings: text, json, github (annotations of a workflow),
                    or sarif (a SARIF 2.1.0 log for code scanning)

Exit codes: 0 done or fresh, 1 stale or findings, 2 wrong usage or I/O error.

The config, with all its keys; paths are relative to it:

    spec: openapi.yaml
    overlay: overlay.yaml             # optional: an OpenAPI Overlay with markers
    package: .                        # the directory with oapi-codegen's output
    output: idempotent.gen.go         # a file name in that directory
    oapi-codegen: oapi-codegen.yaml   # optional: run oapi-codegen first, or
    oapi-codegen: {command: [go, tool, oapi-codegen, -config, c.yaml, openapi.yaml]}
    operations: {createPayment: true, "POST /refunds": {retention: 72h}}
    contract: openapi.idempotent.yaml # optional: also write what idemgen contract prints
    marker: x-idempotent              # optional: another extension name
`

const explainHelp = `Usage: idemgen explain [-config FILE]
       idemgen explain CODE

Without a code, shows all operations of the document. For a marked one, it shows
every value of its policy and where it comes from: the marker, the config, the
defaults at the document's root, the declared header parameter, or the built-in
value.

With a code, such as marker-place, says what findings with this code mean and
what to do. The code stands in brackets behind each finding.
`

const contractHelp = `Usage: idemgen contract [flags]

Prints the document for those who call the API: with the header of the key and
the answers 400, 409, 412 (only with format: uuidv7) and 422 of each marked
operation, with Retry-After and Idempotent-Replayed among the headers of answers,
and with the retention in the descriptions. What the document declares itself
stays as it is, its comments and its order too; but a header that it declares for
a key is required and bounded as the server has it, and has no example and no
default, which tools send as if they were keys. Generate clients and
documentation from the contract, and servers from the document.

    -config FILE    the config (default idemgen.yaml)
    -overlay        print an OpenAPI Overlay that says the same; it is made for
                    the document with the overlay of the config, if there is one,
                    and with YAML's aliases and merge keys written out
    -o FILE         write to a file, as JSON if it is named .json, else as YAML;
                    only files written by idemgen are ever replaced

With contract: FILE in the config, idemgen writes the contract beside the
generated code, and idemgen -check compares it.
`

const initHelp = `Usage: idemgen init [-spec FILE] [DIRECTORY]

Prepares the Go package in the directory (default: this one). It looks for an
OpenAPI document and for oapi-codegen's config, output or go:generate line,
writes idemgen.yaml and a go:generate line, and says what it did and what is
next. Where there is no trace of oapi-codegen, it writes a config for it too.
Nothing is overwritten.

    -spec FILE      the OpenAPI document, where it is not found or not unique
`

const vetHelp = `Usage: idemgen vet [FLAGS OF GO VET] [PACKAGES]

Runs go vet with idemgen as its tool: all of go vet's own checks, and one more,
idempotencykey, which finds misuse of keys that compiles:

    zero-key           a key or request that is never set
    key-per-attempt    a new key for every attempt of a retry
    unstable-key       a key made from the clock
    key-in-handler     a new key for a call from inside a handler
    write-outside-tx   a handler's write outside its transaction
    unprotected-server a server that is served without NewIdempotentHandler

It is go vet -vettool=/path/to/idemgen; in a module that has idemgen as a tool,
go vet -vettool=$(go tool -n idemgen) ./... is the same.

A check is turned off with -idempotencykey.NAME=false; two more are off by
default: -idempotencykey.raw-http and -idempotencykey.retry-loop. With Go 1.26
or later, -fix applies suggested fixes, and -fix -diff prints them. A comment
allows one finding:

    //idemgen:allow write-outside-tx WHY

Exit codes are those of go vet: 0 clean, 1 findings.
`
