// SPDX-License-Identifier: MIT

// Package control is the local socket by which commands of this program, and upstream's, talk
// to a running gateway: protocol version 1, one line of JSON in, one out (services spec §2.9).
// It listens on a socket in the home that only the home's owner and root may use, never on a
// network, and never answers with a secret: what a verb returns is the gateway's to choose.
package control

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Protocol is the version spoken here.
const Protocol = 1

// Limits of a line, and of how long a peer may take with it.
const (
	maxRequest = 64 << 10
	maxReply   = 512 << 10
	patience   = 10 * time.Second
)

// maxPath is the longest path a socket may have on every system.
const maxPath = 100

// Verb answers one kind of request. What it returns is encoded as JSON.
type Verb func(ctx context.Context) (any, error)

// Request is what a client sends.
type Request struct {
	Verb     string `json:"verb"`
	ID       string `json:"id,omitempty"` // comes back with the answer
	Protocol int    `json:"protocol"`
}

// Reply is what a server answers.
type Reply struct {
	OK       bool            `json:"ok"`
	Protocol int             `json:"protocol"`
	ID       string          `json:"id,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    string          `json:"error,omitempty"`
	Verbs    []string        `json:"supported_verbs,omitempty"` // of an unknown one
}

// socketPath is where the socket of a home is: in the home, or in tmp where its path would be
// too long for the system.
func socketPath(h home.Home, tmp string) (path string, moved bool) {
	path = filepath.Join(h.Dir, "gateway.sock")
	if len(path) <= maxPath {
		return path, false
	}
	sum := sha256.Sum256([]byte(h.Dir))
	return filepath.Join(tmp, "hermes-gw-"+hex.EncodeToString(sum[:8])+".sock"), true
}

// pointer is the file that says where a socket outside of the home is.
func pointer(h home.Home) string { return filepath.Join(h.Dir, "gateway.sock.path") }

// Server answers on the socket of a home.
type Server struct {
	listener net.Listener
	path     string
	pointer  string // "" = none
	verbs    map[string]Verb
	log      *slog.Logger
	ctx      context.Context //nolint:containedctx // ends the requests that run when the server is closed
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

// Listen starts to answer. The caller holds the home's claim: a socket that is there is a dead
// gateway's and is replaced. ctx bounds the requests. An error is no reason not to run: clients
// fall back to the state file.
func Listen(ctx context.Context, h home.Home, tmp string, verbs map[string]Verb, log *slog.Logger) (*Server, error) {
	path, moved := socketPath(h, tmp)
	if err := removeSocket(path); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	// Until the mode is set somebody else might connect; who it is is asked with each connection.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s := &Server{listener: l, path: path, verbs: verbs, log: log}
	if moved {
		s.pointer = pointer(h)
		if err := (atomicfile.Writer{}).Write(s.pointer, []byte(path+"\n"), atomicfile.Options{Mode: 0o600}); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.wg.Go(s.serve)
	return s, nil
}

// removeSocket removes a socket that nobody listens on; anything else is an error.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s: is there and is no socket; remove it", path)
	}
	return atomicfile.Writer{}.Remove(path)
}

// Path is where the server listens.
func (s *Server) Path() string { return s.path }

// Close stops answering and waits for the requests that run.
func (s *Server) Close() error {
	s.cancel()
	err := s.listener.Close() // removes the socket
	s.wg.Wait()
	if s.pointer != "" {
		err = errors.Join(err, atomicfile.Writer{}.Remove(s.pointer))
	}
	return err
}

func (s *Server) serve() {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.log.Warn("control socket", "error", err)
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(100 * time.Millisecond): // e.g. no file descriptor left for now
			}
			continue
		}
		s.wg.Go(func() {
			defer conn.Close() //nolint:errcheck // the answer was written or could not be
			if err := trusted(conn); err != nil {
				s.log.Warn("control socket refused a peer", "error", err)
				return
			}
			s.answer(conn)
		})
	}
}

// answer reads one request and writes one reply.
func (s *Server) answer(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(patience)) //nolint:errcheck // a socket takes deadlines
	line, err := bufio.NewReader(io.LimitReader(conn, maxRequest+1)).ReadSlice('\n')
	var req Request
	reply := Reply{Protocol: Protocol}
	switch {
	case err != nil && (len(line) == 0 || len(line) > maxRequest || !errors.Is(err, io.EOF)):
		reply.Error = fmt.Sprintf("want one line of JSON of at most %d bytes", maxRequest)
	case json.Unmarshal(line, &req) != nil:
		reply.Error = "want one line of JSON with verb, id and protocol"
	case req.Protocol > Protocol:
		reply.Error = fmt.Sprintf("protocol %d is newer than this gateway's %d", req.Protocol, Protocol)
	default:
		s.run(conn, req, &reply)
	}
	reply.ID = req.ID
	out, err := json.Marshal(reply)
	if err != nil || len(out) > maxReply {
		out, _ = json.Marshal(Reply{Protocol: Protocol, ID: req.ID, Error: "the answer is too large"}) //nolint:errcheck // nothing in it can fail
	}
	conn.SetDeadline(time.Now().Add(patience)) //nolint:errcheck // a socket takes deadlines
	conn.Write(append(out, '\n'))              //nolint:errcheck // the peer may be gone
}

// run has the verb answer, for as long as it takes.
func (s *Server) run(conn net.Conn, req Request, reply *Reply) {
	verb, ok := s.verbs[req.Verb]
	if !ok {
		reply.Error, reply.Verbs = fmt.Sprintf("unknown verb %q", req.Verb), slices.Sorted(maps.Keys(s.verbs))
		return
	}
	conn.SetDeadline(time.Time{}) //nolint:errcheck // a socket takes deadlines
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("control verb panicked", "verb", req.Verb, "panic", p)
			reply.OK, reply.Result, reply.Error = false, nil, "internal error"
		}
	}()
	result, err := verb(s.ctx)
	if err == nil {
		reply.Result, err = json.Marshal(result)
	}
	if err != nil {
		reply.Error = err.Error()
		return
	}
	reply.OK = true
}

// ErrNotRunning says that no gateway answers on a home's socket.
var ErrNotRunning = errors.New("no gateway answers on this home's control socket")

// RefusedError is a gateway's answer that it could not do what was asked.
type RefusedError struct {
	Verb, Msg string
	Verbs     []string // that it knows, if it does not know this one
}

func (e *RefusedError) Error() string { return e.Verb + ": " + e.Msg }

// Call asks the gateway of a home and decodes its answer into result, unless that is nil. The
// error is [ErrNotRunning], a [*RefusedError], or that of the connection.
func Call(ctx context.Context, h home.Home, tmp, verb string, result any) error {
	path, moved := socketPath(h, tmp)
	if moved {
		if data, err := os.ReadFile(pointer(h)); err == nil {
			path = strings.TrimSpace(string(data))
		}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	defer conn.Close()                                         //nolint:errcheck // the answer was read
	if err := trusted(conn); err != nil && os.Geteuid() != 0 { // root asks on anybody's behalf
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) }) //nolint:errcheck // a socket takes deadlines
	defer stop()
	line, err := json.Marshal(Request{Verb: verb, Protocol: Protocol})
	if err != nil {
		return err
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(conn, maxReply+1))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	var reply Reply
	if err := json.Unmarshal(data, &reply); err != nil {
		return fmt.Errorf("the gateway's answer is no JSON: %w", err)
	}
	if !reply.OK {
		return &RefusedError{verb, reply.Error, reply.Verbs}
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(reply.Result, result)
}
