// Package answercodec compresses and encrypts stored answers. A store takes the
// codec by its option WithCodec:
//
//	keys, err := answercodec.NewKeyring("2026-11", map[string][]byte{"2026-11": key})
//	…
//	codec, err := answercodec.New(ctx, answercodec.WithEncryption(keys))
//	…
//	store, err := pgxstore.New(ctx, pool, pgxstore.WithCodec(codec))
//
// # What it protects
//
// With [WithEncryption] header fields and bodies are sealed by AES-256 in GCM.
// Whoever reads the table, a backup or a replica of it sees of an answer its
// status, its length, and what stands beside it: scope, operation, key, times,
// and the fingerprint, a hash by which a guess at the request's content can be
// tried. Whoever can write to the table cannot change an answer or its status,
// nor put it in the place of another, which would be replayed: an answer is
// bound to scope, operation, key, fingerprint and status. They can still delete
// a record, so that its request runs again, put back an earlier answer to the same
// request, and change its times. And they can put a plain answer into a row, until
// [WithEncryptedOnly] refuses those.
//
// # Keys
//
// Each process encrypts with data keys of its own, which it makes from the
// system's random numbers. [Keys] wraps them under a key-encryption key, which a
// key management service holds, or a [Keyring] in memory; the wrapped data key is
// stored with each answer, and the id of the key that it is wrapped under in
// front of it.
//
// A data key is used for 5 minutes ([WithDataKeyAge]) or half a million answers;
// then another one is made beside the requests, which go on with the old one
// meanwhile. If none can be made, since the service cannot be reached, it is used
// on, for an hour or a million answers in all. Only after that, and after an hour
// without requests, a first request waits for a data key with its transaction
// open, for at most 5 s. [New] makes the first one, so that a service that cannot
// be used is found when the server starts.
//
// A replay needs the data key of its answer. One that was unwrapped is kept in
// memory for as long as a data key is used, at most 1,000 at a time. So a
// key-encryption key that was disabled is read with for 5 minutes more, and
// written with for an hour, with a warning ([WithLogger]) each time that no new
// data key can be made. A call that has failed is not repeated for 1 s.
//
// Nonces are random and have 96 bits. Two of 2^20 answers under one data key
// share one with a probability of 2^-57, and no key-encryption key of a Keyring
// comes near the 2^32 data keys that NIST SP 800-38D (section 8.3) allows it.
//
// # Rotation
//
// Answers expire, so none is encrypted anew: write with the next key, and keep
// the old one for as long as answers under it are kept. All replicas must be able
// to read a key before the first one writes with it; see docs/codec.md.
//
// # Compression
//
// [WithCompression] deflates answers. Together with encryption it is said in its
// comment what lengths then tell.
package answercodec
