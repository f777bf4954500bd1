// Command taskprobe stands for an agent: it looks for ways out of a task's
// sandbox, uses its model, and prints what it found.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

const body = `{"model":"small","max_tokens":50,"messages":[{"role":"user","content":"hello"}]}`

func main() {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		fmt.Println("no input:", err)
	}
	fmt.Println("args", strings.Join(os.Args[1:], " "))
	token, url := os.Getenv("ANTHROPIC_AUTH_TOKEN"), os.Getenv("ANTHROPIC_BASE_URL")
	fmt.Println("token", token)
	fmt.Println("model", ask(url, token))
	fmt.Println("wrong", ask(url, token[:len(token)-1]+"x"))
	fmt.Println("none", ask(url, ""))
	if old, err := os.ReadFile("token"); err == nil {
		fmt.Println("stolen", ask(url, string(old)))
	}
	if err := os.WriteFile("token", []byte(token), 0o600); err != nil {
		fmt.Println(err)
	}
	list, err := net.Interfaces()
	for _, i := range list {
		fmt.Println("if", i.Name)
	}
	if err != nil {
		fmt.Println(err)
	}
	for _, to := range append([]string{"192.0.2.1:80", "10.0.0.1:443", "169.254.169.254:80"}, os.Args[1:]...) {
		if c, err := net.DialTimeout("tcp", to, 2*time.Second); err == nil {
			fmt.Println("way out", to)
			_ = c.Close()
		}
	}
	if addrs, err := net.LookupHost("example.com"); err == nil {
		fmt.Println("way out", addrs)
	}
	fmt.Println(os.Environ())
}

func ask(url, token string) string {
	r, err := http.NewRequest(http.MethodPost, url+"/v1/messages", strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Anthropic-Version", "2023-06-01")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	return fmt.Sprint(resp.StatusCode)
}
