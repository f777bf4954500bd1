package main

import (
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
	server := &http.Server{Handler: proxy, ErrorLog: proxy.ErrorLog} //nolint:gosec // the clients are this program
	return server.Serve(ln)
}
