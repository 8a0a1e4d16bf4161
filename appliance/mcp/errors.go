// SPDX-License-Identifier: MIT

package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

// RefusedError says that a server must not be started as it is configured.
type RefusedError struct{ Server, Reason string }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("mcp server %s is refused: %s", e.Server, e.Reason)
}

// UnknownToolError says that the profile has no such tool, or no longer.
type UnknownToolError struct{ Tool string }

func (e *UnknownToolError) Error() string {
	return fmt.Sprintf("no mcp server of this profile offers a tool %q now", e.Tool)
}

// TimeoutError says that a server did not answer in time.
type TimeoutError struct {
	What  string // e.g. "the connection"
	After time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("no answer to %s within %s", e.What, e.After)
}

// AuthError says that an HTTP server wants a credential that it was not given.
type AuthError struct {
	Status int
	OAuth  bool // it offers OAuth
	Sent   bool // the config has an Authorization header

	Why, Login string // auth: oauth: why nobody is logged in, and the command that logs in
}

func (e *AuthError) Error() string {
	if e.Login != "" {
		return e.Why + "; log in with: " + e.Login
	}
	text := fmt.Sprintf("it answers HTTP %d: ", e.Status)
	switch {
	case e.Sent:
		return text + "the credential in headers.Authorization is not accepted"
	case e.OAuth:
		return text + "it asks for an OAuth login: set auth: oauth in its entry of mcp_servers and run hermes-appliance mcp login; if it takes tokens, put one into headers.Authorization, as ${NAME}, and its value into the profile's .env"
	}
	return text + "it wants a credential; put it into headers, and its value into the profile's .env"
}

// ServerError is a failure of one server. Its text holds no credential of the profile.
type ServerError struct {
	Server string
	text   string
	kind   error // one of this package's errors, of process or of context; may be nil
}

func (e *ServerError) Error() string { return "mcp server " + e.Server + ": " + e.text }

// Unwrap returns what kind of failure it is, nil if it is of no special kind.
func (e *ServerError) Unwrap() error { return e.kind }

// maxError is how much of a server's words an error repeats.
const maxError = 2000

// wrap makes an error fit to be shown. It is idempotent.
func (s *server) wrap(err error) error {
	var done *ServerError
	if err == nil || errors.As(err, &done) {
		return err
	}
	text := strings.ReplaceAll(err.Error(), rejected+": ", "")
	var auth *AuthError
	if wire := answered(err); errors.As(err, &auth) {
		text = auth.Error()
	} else if wire != nil {
		text = fmt.Sprintf("it refuses: %s (code %d)", wire.Message, wire.Code)
	}
	return &ServerError{Server: s.cfg.Name, text: s.clean(text), kind: kindOf(err)}
}

// clean takes credentials and whatever breaks a line out of a text.
func (s *server) clean(text string) string {
	if s.cfg.URL != "" {
		shown := "the server"
		if u, err := url.Parse(s.cfg.URL); err == nil {
			shown = u.Scheme + "://" + u.Host + u.Path
		}
		text = strings.ReplaceAll(text, s.cfg.URL, shown)
		for _, k := range sortedKeys(s.cfg.Headers) {
			if v := s.cfg.Headers[k]; secretHeader(k) && v != "" {
				text = strings.ReplaceAll(text, v, "***")
			}
		}
	}
	text = s.ledger.current().Redactor.String(text)
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), " | ")
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + " …"
	}
	return text
}

// kindOf finds what a caller may act on; anything else could carry a credential in its text.
func kindOf(err error) error {
	var (
		refused *RefusedError
		timeout *TimeoutError
		auth    *AuthError
		left    *process.LeftError
	)
	switch {
	case errors.As(err, &left):
		return left
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &timeout):
		return timeout
	case errors.As(err, &auth):
		return auth
	}
	for _, known := range []error{process.ErrFenced, ErrClosed, context.Canceled, context.DeadlineExceeded, errGone} {
		if errors.Is(err, known) {
			return known
		}
	}
	return nil
}

var (
	// errGone says that a connection ended while something waited for it.
	errGone = errors.New("connection is gone")
	// errStopped is the end of a connection that this side wanted.
	errStopped = errors.New("server was stopped")
)

// goneError is errGone with the reason.
type goneError struct{ text string }

func (e *goneError) Error() string { return e.text }

// Is makes it errGone.
func (e *goneError) Is(target error) bool { return target == errGone }

// permanent reports whether trying again is pointless until the config changes.
func permanent(err error) bool {
	var refused *RefusedError
	var left *process.LeftError
	return errors.Is(err, process.ErrFenced) || errors.As(err, &refused) || errors.As(err, &left)
}

// broken reports whether an error is the end of a connection, whose reason is known elsewhere.
func broken(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, os.ErrClosed, syscall.EPIPE, sdk.ErrConnectionClosed, errGone} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// unsent reports whether a call was surely not carried out: the connection was over before
// it was written, or an HTTP server does not know the session any more, as after its restart.
func unsent(err error) bool {
	return errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, sdk.ErrSessionMissing)
}

// The SDK says with an error of the protocol's own kind that a request did not get through.
const (
	rejected     = "rejected by transport"
	rejectedCode = -32005
)

// answered returns the server's own error, nil if the failure is not an answer of it.
func answered(err error) *jsonrpc.Error {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code == rejectedCode && wire.Message == rejected {
		return nil
	}
	return wire
}

// modernOnly reports whether a server refused the handshake because it only speaks a
// protocol without one.
func modernOnly(err error) bool {
	wire := answered(err)
	return wire != nil && (wire.Code == jsonrpc.CodeMethodNotFound || wire.Code == sdk.CodeUnsupportedProtocolVersion)
}
