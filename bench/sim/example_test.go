package sim_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/servebench/servebench/bench/sim"
)

func ExampleNew() {
	server := httptest.NewServer(sim.New(sim.Config{Model: "demo"}))
	defer server.Close()
	resp, err := http.Post(server.URL+"/v1/completions", "application/json",
		strings.NewReader(`{"model":"other","prompt":"hello"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.Status)
	fmt.Println(string(body))
	// Output:
	// 404 Not Found
	// {"error":{"message":"The model `other` does not exist. Valid aliases: demo.","type":"NotFoundError","param":"model","code":404}}
}
