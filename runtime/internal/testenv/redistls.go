package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// StartRedisTLS starts a Redis server that listens with TLS too. It returns that
// address, and the file of the server's certificate, which is for this address and
// signed by nobody else. The server ends with the test.
func StartRedisTLS(tb testing.TB) (addr, certificate string) {
	tb.Helper()
	if _, err := redisProgram(); err != nil {
		missing(tb, "a Redis server with TLS", "install redis-server", fmt.Errorf("%w: %w", errUnavailable, err))
	}
	dir, err := makeDir()
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	certificate, key := filepath.Join(dir, "certificate.pem"), filepath.Join(dir, "key.pem")
	port, errPort := freePort()
	if err := errors.Join(errPort, selfSign(certificate, key)); err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	StartRedis(tb, "--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no")
	return "127.0.0.1:" + port, certificate
}

// selfSign writes a certificate for the loopback address, and its key.
func selfSign(certificate, key string) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	// Everybody may read the key of a test: the server runs as another user.
	return errors.Join(
		os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o644),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o644))
}
