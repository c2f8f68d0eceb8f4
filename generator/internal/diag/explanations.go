package diag

// explanations has an entry for every code, sorted by code.
var explanations = []Explanation{
	{
		Code:    "body-lost",
		Title:   "oapi-codegen's type for a body loses what the body holds.",
		Meaning: "oapi-codegen declares the body's type by another type, and Go's new types have no methods. The methods that encode and decode a union (oneOf, anyOf) are lost with them, and bodies are sent and read empty or in part. The warning does not stop the run, since the code compiles and other bodies are whole.",
		Wrong: `requestBody:
  content:
    application/json:
      schema: {oneOf: [{$ref: '#/components/schemas/Card'}, {$ref: '#/components/schemas/Iban'}]}`,
		Right: `requestBody:
  content:
    application/json:
      schema: {$ref: '#/components/schemas/Source'}`,
		Remedy: "Move the schema of the body to components/schemas, refer to it, and run oapi-codegen again.",
	},
	{
		Code:    "config-operation",
		Title:   "The config names an operation that the document does not have.",
		Meaning: "The members of operations are operationIds, or a method in capitals and a path as the document writes it. One that matches nothing would leave an operation without protection, so it is an error.",
		Wrong:   `operations: {creatPayment: true, "post /refunds": true}`,
		Right:   `operations: {createPayment: true, "POST /refunds": true}`,
		Remedy:  "Write the operationId or METHOD /path of the operation; idemgen explain lists them. Remove the line of an operation that is gone.",
	},
	{
		Code:    "contract",
		Title:   "The contract cannot say what clients see of a marked operation.",
		Meaning: "A contract is the document with additions, in one file. What lies in another file, or behind the $ref of a path, cannot get them there; a relative $ref leads elsewhere from another directory; a contract is not made from a contract; and some comments and numbers cannot be written in the format asked for. A contract that leaves an operation out would be wrong, so none is written.",
		Wrong: `paths:
  /payments: {$ref: payments.yaml}`,
		Right: `paths:
  /payments:
    post:
      operationId: createPayment
      x-idempotent: true
      responses: {"201": {description: done}}`,
		Remedy: "Change what the message names, or remove contract from the config.",
	},
	{
		Code:    "drift-unknown",
		Title:   "The generated file on disk cannot be read.",
		Meaning: "idemgen reads from the old generated file what runs, and says what of it the document changes. A file with the marks of a merge conflict, or of another version of idemgen, does not say it. The file is stale in any case; this warning says that nothing found does not mean nothing changed.",
		Remedy:  "Compare with the document that the file was made from: idemgen -check -against OLD.",
	},
	{
		Code:    "duplicate-key",
		Title:   "A key stands twice in one object.",
		Meaning: "Readers of YAML and JSON differ on which of the two values counts, so that two tools could read two documents.",
		Wrong: `x-idempotent: true
x-idempotent: {retention: 48h}`,
		Right:  `x-idempotent: {retention: 48h}`,
		Remedy: "Keep one of the two.",
	},
	{
		Code:    "file-invalid",
		Title:   "A file is not the YAML or JSON that it should be.",
		Meaning: "The file is empty, breaks the syntax, is not UTF-8, holds control characters or a second YAML document, or grows past every bound: more than 1000 levels, more than some 4 million values, or aliases that expand to more than 250000.",
		Remedy:  "Mend the file at the position. A file that a program writes is mended in that program.",
	},
	{
		Code:    Unreadable,
		Title:   "A file that the run needs cannot be read.",
		Meaning: "The operating system's reason is in the message. Paths in a config are relative to that config. The exit code is 2, since nothing can be said of what the file holds.",
		Remedy:  "Correct the path, or the permissions of the file.",
	},
	{
		Code:    "fingerprint-changed",
		Title:   "Another part of requests counts than before.",
		Meaning: "Live keys are stored with the fingerprint of their request, and a retry is compared under the rule that holds now. A header or cookie counts as soon as the document declares it, so a new one concerns those clients alone that have sent it all along: that is a warning. A body counts as a JSON value, as parts or as bytes, whichever the declared media types make of it.",
		Wrong:   `x-idempotent: {fingerprint: {exclude: [/sent_at, /trace]}}  # was {exclude: [/sent_at]}`,
		Right:   `x-idempotent: {fingerprint: {exclude: [/sent_at]}}`,
		Remedy:  "Keep the rule, or deploy the change when no retry of an earlier request can come.",
	},
	{
		Code:    "fingerprint-place",
		Title:   "A fingerprint names a place that the operation does not declare.",
		Meaning: "A place that is nowhere in the request would be left out in silence: with exclude, the member that was meant counts after all; with include, it does not count at all. The key itself is never a part of the fingerprint.",
		Wrong:   `x-idempotent: {fingerprint: {exclude: [/sent-at]}}  # the schema has sent_at`,
		Right:   `x-idempotent: {fingerprint: {exclude: [/sent_at]}}`,
		Remedy:  "Name a property of the JSON body's schema by its JSON Pointer, or a declared parameter as header:NAME or query:NAME.",
	},
	{
		Code:    "foreign-file",
		Title:   "A file that no generator wrote stands where a generated one belongs.",
		Meaning: "Only a file that begins with the header of a generator is replaced, so that code that a person wrote is never lost.",
		Remedy:  "Rename that file, or write another name under output or contract in the config.",
	},
	{
		Code:    "go-declared-twice",
		Title:   "A type of a marked operation is declared twice.",
		Meaning: "The package does not compile, with idemgen's file or without it. The usual cause is a schema whose name is that of the type that oapi-codegen makes for the operation's answers in a client, such as CreatePaymentResponse.",
		Wrong:   `output-options: {}`,
		Right:   `output-options: {response-type-suffix: Result}`,
		Remedy:  "Set response-type-suffix in oapi-codegen's config, or give the schema another name with x-go-name, and run it again.",
	},
	{
		Code:    "go-dot-imports",
		Title:   "A generated file imports several packages as \".\".",
		Meaning: "The source does not say which of these packages declares a name, and idemgen reads the source alone.",
		Wrong: `additional-imports:
  - {package: example.com/money, alias: .}
  - {package: example.com/dates, alias: .}`,
		Right: `additional-imports:
  - {package: example.com/money, alias: .}
  - {package: example.com/dates, alias: dates}`,
		Remedy: "Give all but one an alias under additional-imports in oapi-codegen's config, and run it again.",
	},
	{
		Code:    "go-framework",
		Title:   "The server is generated for a framework that idemgen does not support.",
		Meaning: "The generated code wraps the server interface of oapi-codegen, whose methods differ with the framework.",
		Wrong: `output-options:
  user-templates:
    stdhttp/std-http-interface.tmpl: |
      type ServerInterface interface {
      {{range .}}{{.OperationId}}(c context.Context)
      {{end}}}`,
		Right:  `generate: {models: true, std-http-server: true, strict-server: true}`,
		Remedy: "Choose one of the targets in the message under generate in oapi-codegen's config, and leave the template of its ServerInterface as it is.",
	},
	{
		Code:    "go-no-files",
		Title:   "The package directory holds no Go files.",
		Meaning: "idemgen reads the code that oapi-codegen wrote, and there is none yet.",
		Wrong:   `spec: openapi.yaml`,
		Right: `spec: openapi.yaml
oapi-codegen: oapi-codegen.yaml`,
		Remedy: "Run oapi-codegen first, or let idemgen run it: name its config under oapi-codegen. If the code is elsewhere, name its directory under package.",
	},
	{
		Code:    "go-no-operations",
		Title:   "The generated server has no operations.",
		Meaning: "ServerInterface has no methods, so there is nothing to wrap.",
		Remedy:  "Look for include-tags, exclude-tags or include-operation-ids in oapi-codegen's config, which may leave all operations out.",
	},
	{
		Code:    "go-no-receiver",
		Title:   "Nothing in the package receives a marked webhook or callback.",
		Meaning: "oapi-codegen writes a WebhookReceiverInterface and a CallbackReceiverInterface since v2.8, beside a server: with models or a client alone there is none.",
		Wrong:   `generate: {models: true, client: true}`,
		Right:   `generate: {models: true, client: true, std-http-server: true}`,
		Remedy:  "Set a server target in oapi-codegen's config and run v2.8 or later. A document without paths gives an empty server beside the receivers. If somebody else receives the webhook, remove the marker.",
	},
	{
		Code:    "go-no-server",
		Title:   "The package has no server.",
		Meaning: "Operations are read from oapi-codegen's server, or from its client in a package that is a client alone. A strict server stands on the other one: the key is read where the request is raw, and the handler runs where it is typed.",
		Remedy:  "Set a server target in oapi-codegen's config, and run it again. For a package that is a client alone, set client: true.",
	},
	{
		Code:    "go-shape",
		Title:   "The Go code is not of the shape that oapi-codegen writes.",
		Meaning: "Names and types are read from oapi-codegen's own output, v2.3 to v2.8. What is not of that shape comes from another version, from templates of your own, or from two runs that do not fit together.",
		Remedy:  "Generate models, server and client with one run of oapi-codegen v2.3 to v2.8, from the same document.",
	},
	{
		Code:    "go-syntax",
		Title:   "A Go file of the package does not parse.",
		Meaning: "The package's declarations are read from its source, which the Go parser refuses at the position.",
		Remedy:  "Mend the file; generate it again if a generator wrote it.",
	},
	{
		Code:    "go-two-outputs",
		Title:   "A package holds two outputs of oapi-codegen.",
		Meaning: "Servers and clients of two documents declare the same names, so that the package does not compile, and the operations of one would hide the other's.",
		Wrong:   `package: .  # with orders.gen.go and billing.gen.go in it`,
		Right:   `package: orders`,
		Remedy:  "Give each document a directory, a package and an idemgen config of its own, or delete the file that is left over from an earlier output name.",
	},
	{
		Code:    "in-flight-changed",
		Title:   "Retries during the first attempt are answered otherwise than before.",
		Meaning: "A shorter wait answers 409 in_flight where the retry got the first attempt's answer, and clients that take a 409 for the end give up. A longer wait is a warning.",
		Wrong:   `x-idempotent: {inFlight: reject}  # was {waitUpTo: 5s}`,
		Right:   `x-idempotent: {inFlight: {waitUpTo: 5s}}`,
		Remedy:  "Keep the wait until all clients retry such a 409, as Retry-After says.",
	},
	{
		Code:    "init",
		Title:   "idemgen init cannot go on by itself.",
		Meaning: "init overwrites nothing and does not guess: it needs a directory, one OpenAPI document, and free names for the files it writes.",
		Remedy:  "Do what the message says: name the document with -spec, rename the file in the way, or write the config by hand.",
	},
	{
		Code:    "key-body",
		Title:   "The body cannot hold the key.",
		Meaning: "A key in the body is one string at one place, in every body that the operation takes: the server reads it there before anything else, and a client writes it there. Every media type and every alternative of a oneOf or anyOf must declare it, or take members that it does not name. A part of a multipart body, an element of an array, text, and a body that may be absent hold none; and a member that is readOnly, or has a default, is not what a client sends. A name that differs from the member's in letter case alone is taken for it by Go's JSON decoder, and so is a query parameter of its name by decoders of forms. Where the marker says required: false, the schema must not require the member.",
		Wrong: `x-idempotent: {key: {in: body, name: /idempotency_key}}
requestBody:
  required: true
  content:
    application/json: {schema: {type: object, properties: {idempotency_key: {type: string}}}}
    text/plain: {schema: {type: string}}`,
		Right: `x-idempotent: {key: {in: body, name: /idempotency_key}}
requestBody:
  required: true
  content:
    application/json: {schema: {type: object, properties: {idempotency_key: {type: string}}}}`,
		Remedy: "Declare the member as a plain string in every body, or use a header: key: {in: header}.",
	},
	{
		Code:    "key-changed",
		Title:   "An operation takes other keys than before, or requires them.",
		Meaning: "Clients send the keys that they have sent before. Where the header or member, the format, the length or the duty to send a key changes, some of them are refused, or run without protection; and a live key that is spelt otherwise now is not found, so that its retry runs again. A greater maxLength is a warning.",
		Wrong:   `x-idempotent: {required: true}  # was false, and clients without a key are left`,
		Right:   `x-idempotent: {required: false}`,
		Remedy:  "Tell the clients first. Require a key when the outcome unprotected is counted no more; change the rest when all clients send keys that are valid before and after.",
	},
	{
		Code:    "key-header",
		Title:   "What the document declares for the key's header does not fit the key.",
		Meaning: "A key is a string that the generated code checks itself. A header of another type cannot carry it. A required header, and one with a format that oapi-codegen has a Go type for, is answered by oapi-codegen's code when it is missing or malformed: in plain text, without the problem document and past the observer. The latter is a warning.",
		Wrong: `parameters:
  - {name: Idempotency-Key, in: header, required: true, schema: {type: string, format: uuid}}`,
		Right: `x-idempotent: {key: {format: uuid}}
parameters:
  - {name: Idempotency-Key, in: header, schema: {type: string}}`,
		Remedy: "Declare the header as a plain string that is not required, or not at all, and write format and maxLength under key in the marker. A missing key is refused all the same.",
	},
	{
		Code:    "key-unchecked",
		Title:   "A limit on the key's header or member is checked by nobody.",
		Meaning: "The generated code checks a key's format and greatest length. It does not check the pattern or minLength of the declared header or member, and neither does oapi-codegen's: clients read a promise that the server does not keep. This is a warning.",
		Wrong: `parameters:
  - {name: Idempotency-Key, in: header, schema: {type: string, pattern: '^[0-9a-f-]{36}$'}}`,
		Right: `x-idempotent: {key: {format: uuid}}
parameters:
  - {name: Idempotency-Key, in: header, schema: {type: string}}`,
		Remedy: "Write format: uuid under key in the marker if that is what is meant, or check the limit in a middleware.",
	},
	{
		Code:    "leftover",
		Title:   "The package holds another file of idemgen's.",
		Meaning: "It was written for another config or output name. The package would hold everything twice, or code that nothing keeps fresh.",
		Remedy:  "Delete the file if it is left over. Two documents in one package need a package each.",
	},
	{
		Code:    "marker-method",
		Title:   "A marker on a method that changes nothing.",
		Meaning: "GET, HEAD, OPTIONS and TRACE are safe (RFC 9110 section 9.2.1): they can be repeated without a key, and a stored answer would be an old one.",
		Wrong: `get:
  x-idempotent: true`,
		Right: `post:
  x-idempotent: true`,
		Remedy: "Remove the marker. An operation that does change something belongs under another method.",
	},
	{
		Code:    "marker-misspelt",
		Title:   "An extension whose name is nearly the marker's.",
		Meaning: "OpenAPI tools skip extensions that they do not know, so that a misspelt marker would leave the operation without protection in silence.",
		Wrong:   `x-idempotant: true`,
		Right:   `x-idempotent: true`,
		Remedy:  "Correct the spelling. If the extension is another tool's, name a marker of your own in the config: marker: x-my-marker.",
	},
	{
		Code:    "marker-place",
		Title:   "A marker stands where it marks nothing.",
		Meaning: "A marker belongs on an operation, beside its responses, and the defaults at the root of the document. Elsewhere, beside a $ref too, readers drop it, and the operation would be without protection in silence.",
		Wrong: `/payments:
  x-idempotent: true
  post:
    operationId: createPayment`,
		Right: `/payments:
  post:
    operationId: createPayment
    x-idempotent: true`,
		Remedy: "Move the marker to each operation that it should mark. Settings for all of them go under x-idempotent-defaults.",
	},
	{
		Code:    "marker-stream",
		Title:   "A marked operation whose answer streams.",
		Meaning: "An answer is stored before it is sent, and replayed byte for byte. A stream of events or lines has no end that could be waited for.",
		Wrong: `x-idempotent: true
responses:
  "200": {content: {text/event-stream: {}}}`,
		Right: `x-idempotent: true
responses:
  "202": {content: {application/json: {}}}`,
		Remedy: "Remove the marker or the media type. An operation that starts work can be marked, and its progress streamed by another one.",
	},
	{
		Code:    "marker-twice",
		Title:   "An operation has two markers.",
		Meaning: "The config marks an operation that has a marker of its own, or names it twice, by operationId and by METHOD /path. Which of the two counts would be a guess.",
		Wrong:   `operations: {createPayment: true, "POST /payments": {retention: 72h}}  # one operation`,
		Right:   `operations: {createPayment: {retention: 72h}}`,
		Remedy:  "Keep one of the two.",
	},
	{
		Code:    "missing",
		Title:   "A generated file is not there.",
		Meaning: "idemgen -check compares what would be generated with the files on disk.",
		Remedy:  "Run go generate and commit the file. If it is in .gitignore, generate it before the check.",
	},
	{
		Code:    "missing-key",
		Title:   "A setting that must be there is not.",
		Meaning: "The config needs spec, the path of the OpenAPI document, and an oapi-codegen object needs its command.",
		Wrong:   `oapi-codegen: oapi-codegen.yaml`,
		Right: `spec: openapi.yaml
oapi-codegen: oapi-codegen.yaml`,
		Remedy: "Write the setting that the message names.",
	},
	{
		Code:    "mode-changed",
		Title:   "Handlers run in something else than before.",
		Meaning: "What a handler writes through a transaction is committed with its answer and happens at most once; what it does under a lease is not undone and may be done again after a crash. Live keys of the one are found by the other. Another length of leases is a warning.",
		Wrong:   `x-idempotent: {mode: {lease: 30s}}  # was transaction`,
		Right:   `x-idempotent: {mode: transaction}`,
		Remedy:  "Change it with the handler, and where the mode was a lease, when no key is left that has no answer.",
	},
	{
		Code:    "module",
		Title:   "The package is not in the Go module of the config.",
		Meaning: "Import paths are computed from the go.mod file above the config, and the generated file is written to a directory of that module.",
		Remedy:  "Run go mod init at the module's root, correct package in the config, or move the config into the module.",
	},
	{
		Code:    "name-collision",
		Title:   "A generated name is already taken.",
		Meaning: "The package declares a name that the generated code needs, or an operation has the name of something that every generated file holds. The code would not compile, or mean something else.",
		Wrong: `x-idempotent: true
requestBody:
  content:
    application/json: {schema: {$ref: '#/components/schemas/CreatePaymentIdempotentRequest'}}`,
		Right: `x-idempotent: {name: CreatePaymentCall}
requestBody:
  content:
    application/json: {schema: {$ref: '#/components/schemas/CreatePaymentIdempotentRequest'}}`,
		Remedy: "Write name in the operation's marker, give the operation another operationId, or rename the other declaration: a schema with x-go-name.",
	},
	{
		Code:    "nothing-marked",
		Title:   "No operation of the document is marked.",
		Meaning: "A run that protects nothing is more often a mistake than a wish: the wrong document, another marker name, or an overlay that does not apply.",
		Wrong: `post:
  operationId: createPayment`,
		Right: `post:
  operationId: createPayment
  x-idempotent: true`,
		Remedy: "Mark an operation, or name it under operations in the config. Where none is to be protected any more, delete the generated file, the config and the go:generate line.",
	},
	{
		Code:    "oapi-codegen",
		Title:   "The run of oapi-codegen has failed.",
		Meaning: "oapi-codegen cannot generate from this document or with this config; its own message is in the finding.",
		Remedy:  "Mend what the message names. To run a version of your own, write oapi-codegen: {command: [...]} in the config.",
	},
	{
		Code:    "oapi-config",
		Title:   "oapi-codegen's config cannot be used.",
		Meaning: "It is wrong by oapi-codegen's own rules, or asks for what a built-in run does not do: user templates, files from the network, an output in another directory than the package of the idemgen config.",
		Remedy:  "Mend the config at the position, or run oapi-codegen yourself: oapi-codegen: {command: [...]}.",
	},
	{
		Code:    "operation-ambiguous",
		Title:   "It is not clear which generated method serves an operation.",
		Meaning: "Two methods could be the operation's, or two operations could be the method's: their names are the same but for letter case and punctuation.",
		Remedy:  "Give each operation an operationId of its own, and run oapi-codegen again.",
	},
	{
		Code:    "operation-id",
		Title:   "The name of a marked operation is not its own.",
		Meaning: "Stored answers are kept under the operation's name: the operationId, or METHOD /path where there is none. Two operations with one name would answer each other's requests. The name is text without control characters.",
		Wrong: `post: {operationId: create, x-idempotent: true}
put: {operationId: create}`,
		Right: `post: {operationId: create, x-idempotent: true}
put: {operationId: replace}`,
		Remedy: "Give each operation an operationId of its own.",
	},
	{
		Code:    "operation-moved",
		Title:   "A marked operation has another method or path.",
		Meaning: "Clients that retry at the old place find nothing there. Method and path are a part of the fingerprint, so that a live key at the new place is a mismatch.",
		Remedy:  "Serve both places, under an operationId each, until no retry of an earlier request can come.",
	},
	{
		Code:    "operation-removed",
		Title:   "A marked operation is gone from the document.",
		Meaning: "A client whose first attempt went through, and whose answer was lost, retries and finds nothing: it cannot tell that the effect is there.",
		Remedy:  "Keep the operation until no retry of an earlier request can come.",
	},
	{
		Code:    "operation-renamed",
		Title:   "A marked operation has another name in stored records.",
		Meaning: "A record is found by scope, operation and key. The operation's name is its operationId, or method and path where it has none. Under another name no live key is found, and its retry runs again.",
		Wrong: `operationId: makePayment  # was createPayment
x-idempotent: true`,
		Right: `operationId: createPayment
x-idempotent: true`,
		Remedy: "Keep the old name as the operationId, method and path included if that was the name, or rename when no retry of an earlier request can come.",
	},
	{
		Code:    "operation-stale",
		Title:   "The generated method serves another route than the document says.",
		Meaning: "The comment above the method names the route that oapi-codegen read. The document has changed since.",
		Remedy:  "Run oapi-codegen again.",
	},
	{
		Code:    "operation-unmatched",
		Title:   "No generated method serves a marked operation.",
		Meaning: "oapi-codegen's output is older than the operation, or its config leaves the operation out.",
		Remedy:  "Run oapi-codegen again, look for include-tags and the like in its config, or remove the marker.",
	},
	{
		Code:    "overlay-invalid",
		Title:   "The overlay is wrong, or does nothing.",
		Meaning: "The file is no OpenAPI Overlay, or one of its actions has an unknown setting, a target that cannot be read or matches nothing, or no effect. An action that does nothing would leave operations unmarked in silence.",
		Wrong: `actions:
  - target: $.paths['/payment'].post  # the path is /payments
    update: {x-idempotent: true}`,
		Right: `actions:
  - target: $.paths['/payments'].post
    update: {x-idempotent: true}`,
		Remedy: "Correct the action at the position. An overlay begins with overlay: 1.0.0 and has info and actions.",
	},
	{
		Code:    "pattern-prefix",
		Title:   "A marked operation would take the requests of other paths.",
		Meaning: "net/http's ServeMux takes a pattern that ends with a slash for every path that begins so. Code of oapi-codegen before v2.8 registers paths that end with a slash in this form; v2.5 to v2.7 write the root alone as /{$}.",
		Wrong: `/payments/:  # with oapi-codegen v2.7
  post: {x-idempotent: true}`,
		Right: `/payments:
  post: {x-idempotent: true}`,
		Remedy: "Generate the server with oapi-codegen v2.8, as chi-server or as gorilla-server, or take the slash off the path.",
	},
	{
		Code:    "pattern-refused",
		Title:   "net/http's ServeMux panics on a pattern of the server.",
		Meaning: "A wildcard must be a whole segment with a Go identifier as its name, and of two patterns that match one path, one must be more specific. The panic comes when the server registers its routes. The warning does not stop the run, since another router may be passed as BaseRouter.",
		Wrong:   `/payments/{id}:cancel:`,
		Right:   `/payments/{id}/cancel:`,
		Remedy:  "Choose chi-server or gorilla-server in oapi-codegen's config, or change the path.",
	},
	{
		Code:    "plain-body",
		Title:   "A body has no Go type that a server without strict-server can be given.",
		Meaning: "Such a server does not decode bodies. idemgen does it as the strict server would, into the type that oapi-codegen declares for the media type, which it finds by the comment above it or by its name. A text body must be a string, and two bodies must differ in more than the parameters of their media types.",
		Remedy:  "Generate the models into the package of the server, or into a package of the same module that it imports as \".\".",
	},
	{
		Code:    "protection-gained",
		Title:   "An operation that clients call is marked now.",
		Meaning: "Clients that send no key are refused from the day of the deployment. With required: false they are served as before, and this is a warning.",
		Wrong:   `x-idempotent: true`,
		Right:   `x-idempotent: {required: false}`,
		Remedy:  "Mark it with required: false, count the requests without a key, and require it when there are none: docs/adoption.md.",
	},
	{
		Code:    "protection-lost",
		Title:   "An operation is not marked any more.",
		Meaning: "Every retry runs again, with or without a key, and clients are not told. Live keys replay nothing.",
		Wrong:   `x-idempotent: false`,
		Right:   `x-idempotent: true`,
		Remedy:  "Mark it again. To give protection up on purpose, tell the clients to stop their retries first.",
	},
	{
		Code:    "ref-invalid",
		Title:   "A $ref that a marked operation needs cannot be followed.",
		Meaning: "It leads nowhere, in a circle, or away from this machine: remote documents are not read, so that the same files give the same code everywhere.",
		Wrong: `parameters:
  - $ref: https://example.com/parameters.yaml#/Trace`,
		Right: `parameters:
  - $ref: '#/components/parameters/Trace'`,
		Remedy: "Correct the $ref, or put what it names into the document or a local file.",
	},
	{
		Code:    "release-changed",
		Title:   "Other answers free the key than before.",
		Meaning: "An answer that is new in the list is rolled back, and its retry runs again. One that is gone from it is committed with whatever the handler wrote, stored, and replayed to every retry until its retention has passed.",
		Wrong:   `x-idempotent: {release: []}  # a 503 would be replayed for a day`,
		Right:   `x-idempotent: {release: [429, 5XX]}`,
		Remedy:  "Change the list together with the handler and with the clients that retry such answers.",
	},
	{
		Code:    "retention-changed",
		Title:   "Answers are kept for another time than before.",
		Meaning: "After a shorter one a retry runs again, or is answered 412 key_expired with format uuidv7, that got the stored answer. A longer one is a warning, unless keys are UUIDv7: their age is judged by the new retention, and a key whose answer went after the old one is young enough again to run a second time.",
		Wrong:   `x-idempotent: {retention: 1h}  # was 24h`,
		Right:   `x-idempotent: {retention: 24h}`,
		Remedy:  "Keep the retention as long as clients retry. Lengthen that of UUIDv7 keys while no retry comes after the old one.",
	},
	{
		Code:    "short-retention",
		Title:   "Answers are kept for less than a minute.",
		Meaning: "A retry that comes after the retention is a new request, and happens again. Clients retry for minutes, and people and queues for hours. This is a warning.",
		Wrong:   `x-idempotent: {retention: 10s}`,
		Right:   `x-idempotent: {retention: 24h}`,
		Remedy:  "Keep answers for longer than any client retries.",
	},
	{
		Code:    "spec-version",
		Title:   "The document is not OpenAPI 3.0 or 3.1.",
		Meaning: "Swagger 2.0 and other versions are not read.",
		Wrong:   `swagger: "2.0"`,
		Right:   `openapi: 3.0.3`,
		Remedy:  "Convert the document, and name the result under spec in the config.",
	},
	{
		Code:    "stale",
		Title:   "A generated file is not what the document says now.",
		Meaning: "idemgen -check compares what would be generated with the files on disk, and prints the difference.",
		Remedy:  "Run go generate and commit the file.",
	},
	{
		Code:    "unknown-key",
		Title:   "A setting that does not exist.",
		Meaning: "A misspelt setting would leave the built-in value in place in silence. The message names the nearest, or all that exist.",
		Wrong:   `x-idempotent: {retension: 48h}`,
		Right:   `x-idempotent: {retention: 48h}`,
		Remedy:  "Correct the spelling, or remove the setting.",
	},
	{
		Code:    "wrong-type",
		Title:   "A value of another type than the setting takes.",
		Meaning: "YAML reads yes, on and quoted words as text, and 48 as a number. The message says what the setting takes and what stands there.",
		Wrong:   `x-idempotent: {required: "yes", retention: 48}`,
		Right:   `x-idempotent: {required: true, retention: 48h}`,
		Remedy:  "Write a value of the type that the message names.",
	},
	{
		Code:    "wrong-value",
		Title:   "A value that the setting does not take.",
		Meaning: "The type is right, and the value is out of bounds, misspelt, or at odds with another setting.",
		Wrong:   `x-idempotent: {retention: 2d, key: {maxLength: 300}}`,
		Right:   `x-idempotent: {retention: 48h, key: {maxLength: 255}}`,
		Remedy:  "Write one of the values that the message names.",
	},
}
