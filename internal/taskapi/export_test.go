package taskapi

import (
	"net/http"
	"net/http/httptest"
)

// Handle has a server answer a request, without a socket.
func Handle(s *Server, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r)
	return w
}
