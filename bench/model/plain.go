package main

import (
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
)

// fdListener is the plain proxy's listener.
const fdListener = 3

// plain is the least that can stand in the gateway's place: it passes requests
// and answers on as they are.
func plain(upstream string) error {
	ln, err := net.FileListener(os.NewFile(fdListener, "listener"))
	if err != nil {
		return err
	}
	to := &url.URL{Scheme: "http", Host: upstream}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
		FlushInterval: -1,
		ErrorLog:      log.New(os.Stderr, "", 0),
	}
	server := &http.Server{Handler: whole(proxy), ErrorLog: proxy.ErrorLog}
	return server.Serve(ln)
}

// whole reads a request's body before anything is passed on, as the gateways do.
// Otherwise the server closes it when an answer begins, and the transport, if it
// has not seen its end yet, takes that for an error of the answer's connection.
func whole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
