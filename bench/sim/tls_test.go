package sim_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/servebench/servebench/bench/sim"
)

func TestSelfSignedIsForLoopbackAndItsHosts(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	pair, err := sim.SelfSigned(now, "box.example", "10.0.0.7", "0.0.0.0", "")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	for _, tt := range []struct {
		name string
		at   time.Time
		ok   bool
	}{
		{"localhost", now, true}, {"127.0.0.1", now, true}, {"::1", now, true}, {"box.example", now, true}, {"10.0.0.7", now, true},
		{"0.0.0.0", now, false}, {"example.com", now, false},
		{"localhost", now.Add(8 * 24 * time.Hour), false}, {"localhost", now.Add(-2 * time.Hour), false},
	} {
		_, err := cert.Verify(x509.VerifyOptions{DNSName: tt.name, Roots: pool, CurrentTime: tt.at})
		if (err == nil) != tt.ok {
			t.Errorf("%s at %v: %v", tt.name, tt.at, err)
		}
	}
	other, err := sim.SelfSigned(now)
	if err != nil || string(other.Certificate[0]) == string(pair.Certificate[0]) {
		t.Errorf("a second one is the same: %v", err)
	}
}

// HTTPS answers who trusts the certificate and nobody else, and tells of arrivals as
// plain HTTP does.
func TestServeTLS(t *testing.T) {
	pair, err := sim.SelfSigned(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- sim.New(sim.Config{Truth: true}).ServeTLS(ctx, l, pair) }()
	url := "https://" + l.Addr().String() + "/v1/completions"
	post := func(trusted bool) (string, error) {
		pool := x509.NewCertPool()
		if trusted {
			cert, err := x509.ParseCertificate(pair.Certificate[0])
			if err != nil {
				t.Fatal(err)
			}
			pool.AddCert(cert)
		}
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
		defer transport.CloseIdleConnections()
		res, err := (&http.Client{Transport: transport}).Post(url, "application/json", strings.NewReader(`{"model":"m","prompt":"a","max_tokens":2,"stream":true}`))
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return string(body), err
	}
	if body, err := post(true); err != nil || strings.Count(body, `"arrived_ns":`) != 1 || strings.Count(body, `"sent_ns":`) != 2 {
		t.Errorf("%v: %s", err, body)
	}
	if _, err := post(false); err == nil {
		t.Error("a certificate that nobody trusts is accepted")
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
