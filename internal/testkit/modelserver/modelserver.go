// SPDX-License-Identifier: MIT

// Package modelserver is a model provider for tests: a real HTTP server that speaks both wire
// formats and follows a script of answers, failures and mishaps. It checks every request as
// strictly as a provider would, and reports what it would have refused as a failure of the
// test. It never guesses: a request beyond the script fails the test.
package modelserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Call is a tool call that the model makes.
type Call struct {
	ID, Name, Args string
}

// Reply is one answer of the script. The zero value is an empty answer that ends properly.
type Reply struct {
	Status int               // 0 = 200
	Header map[string]string // of the answer
	Body   string            // the whole body, instead of an answer; needs a Status or a Header

	Reasoning string
	Text      string // sent in pieces of one word
	Calls     []Call
	Finish    string // "" = what fits; as the wire of the request names it
	Usage     string // a JSON object instead of honest numbers; "none" = no usage at all

	Raw []string // data of events, sent as they are instead of an answer; "event: x\n…" names one

	CutAfter int  // > 0: the connection breaks after so many events
	CutHalf  bool // with CutAfter: half of the next event still comes
	EndAfter int  // > 0: the body ends properly after so many events, the answer does not
	Silent   bool // headers, and then nothing until the client goes
	Mute     bool // not even headers

	// Hold, if not nil, stops the answer after HoldAfter events until it is closed or the
	// client goes. Held is closed when that point is reached.
	Hold      <-chan struct{}
	Held      chan<- struct{}
	HoldAfter int
}

// Request is what the server was asked.
type Request struct {
	Path   string
	Header http.Header
	Body   []byte
}

// Server follows a script. Its methods are safe for concurrent use.
type Server struct {
	URL string // without a path; "/v1" is added by the caller where the wire wants it

	t       testing.TB
	next    func(Request) Reply
	mu      sync.Mutex
	asked   []Request
	lenient bool
}

// New starts a server that gives the replies in their order. It stops with the test.
func New(t testing.TB, script ...Reply) *Server {
	t.Helper()
	var mu sync.Mutex
	return NewFunc(t, func(Request) Reply {
		mu.Lock()
		defer mu.Unlock()
		if len(script) == 0 {
			t.Errorf("the model is asked once more than its script has answers")
			return Reply{Status: 500, Body: "the script is over"}
		}
		r := script[0]
		script = script[1:]
		return r
	})
}

// NewFunc starts a server that asks f for each reply; f is called concurrently.
func NewFunc(t testing.TB, f func(Request) Reply) *Server {
	t.Helper()
	s := &Server{t: t, next: f}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

// Lenient switches the check of requests off.
func (s *Server) Lenient() *Server {
	s.lenient = true
	return s
}

// Requests returns what was asked so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.asked...)
}

// wire renders answers in one format.
type wire interface {
	events(r Reply, prompt int) []string
	whole(r Reply, prompt int) string
}

func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the client went
	}
	got := Request{Path: req.URL.Path, Header: req.Header.Clone(), Body: body}
	s.mu.Lock()
	s.asked = append(s.asked, got)
	s.mu.Unlock()
	var format wire
	var problem error
	switch req.URL.Path {
	case "/v1/chat/completions":
		format, problem = chat{}, CheckChat(body)
	case "/v1/messages":
		format, problem = messages{}, CheckMessages(body)
	default:
		http.Error(w, `{"error":{"message":"no such endpoint","code":"not_found"}}`, http.StatusNotFound)
		return
	}
	if problem != nil && !s.lenient {
		s.t.Errorf("a provider would refuse this request: %v\n%s", problem, body)
		http.Error(w, `{"error":{"type":"invalid_request_error","message":`+quoted(problem.Error())+`}}`, http.StatusBadRequest)
		return
	}
	play(w, req, s.next(got), format, body)
}

func quoted(s string) string {
	return encode(s)
}

func play(w http.ResponseWriter, req *http.Request, r Reply, format wire, body []byte) {
	if r.Mute {
		<-req.Context().Done()
		panic(http.ErrAbortHandler)
	}
	status := r.Status
	if status == 0 {
		status = http.StatusOK
	}
	for name, v := range r.Header {
		w.Header().Set(name, v)
	}
	if r.Body != "" || status >= 300 {
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		send(w, r.Body)
		return
	}
	var asked struct{ Stream bool }
	if json.Unmarshal(body, &asked) != nil {
		panic(http.ErrAbortHandler) // no request at all; the check has said so
	}
	if !asked.Stream {
		w.Header().Set("Content-Type", "application/json")
		send(w, format.whole(r, len(body)))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(status)
	flush(w)
	if r.Silent {
		<-req.Context().Done()
		panic(http.ErrAbortHandler)
	}
	events := r.Raw
	if events == nil {
		events = format.events(r, len(body))
	}
	for i, e := range events {
		if r.Hold != nil && i == r.HoldAfter {
			hold(req, r)
		}
		switch {
		case r.CutAfter > 0 && i == r.CutAfter:
			if r.CutHalf {
				send(w, frame(e)[:len(frame(e))/2])
				flush(w)
			}
			panic(http.ErrAbortHandler)
		case r.EndAfter > 0 && i == r.EndAfter:
			return
		}
		send(w, frame(e))
		flush(w)
	}
}

func hold(req *http.Request, r Reply) {
	if r.Held != nil {
		close(r.Held)
	}
	select {
	case <-r.Hold:
	case <-req.Context().Done():
		panic(http.ErrAbortHandler)
	}
}

// send writes to a client that may be gone.
func send(w io.Writer, s string) {
	if _, err := io.WriteString(w, s); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func frame(event string) string {
	if strings.HasPrefix(event, "event: ") || strings.HasPrefix(event, ":") {
		return event + "\n\n"
	}
	return "data: " + event + "\n\n"
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

func words(s string) []string {
	if s == "" {
		return nil
	}
	return strings.SplitAfter(s, " ")
}

// halves splits arguments as providers do, in the middle of a token.
func halves(s string) []string {
	return []string{s[:len(s)/2], s[len(s)/2:]}
}

func (r Reply) tokens() int { return (len(r.Text)+len(r.Reasoning)+3)/4 + 8*len(r.Calls) }

func object(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("the script cannot be written as JSON: %v", err))
	}
	return string(b)
}
