// SPDX-License-Identifier: MIT

//go:build linux

package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fakeEnv makes this test binary an MCP server with the habits that it lists.
const fakeEnv = "HERMES_MCP_FAKE"

func TestMain(m *testing.M) {
	habits, fake := os.LookupEnv(fakeEnv)
	if !fake {
		os.Exit(m.Run())
	}
	f := &fakeServer{habits: strings.Split(habits, ","), out: bufio.NewWriter(os.Stdout), waiting: map[string]bool{}}
	f.serve()
}

// fakeServer is a server written by hand, so that it can do what no SDK would.
type fakeServer struct {
	habits []string

	mu      sync.Mutex
	out     *bufio.Writer
	grown   bool
	pings   int
	asked   frame           // a call that waits for the model
	waiting map[string]bool // ids of calls that wait to be cancelled
}

func (f *fakeServer) is(habit string) bool { return slices.Contains(f.habits, habit) }

type frame struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
	Params json.RawMessage `json:"params"`
}

func (f *fakeServer) serve() {
	switch {
	case f.is("host"):
		hostUntilKilled()
		return
	case f.is("conformance"):
		conformanceClient()
		return
	case f.is("sleep"):
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("asleep")
		select {}
	case f.is("exit"):
		fmt.Fprintln(os.Stderr, "no licence found for key "+os.Getenv("CANARY"))
		os.Exit(7)
	case f.is("flood"):
		line := strings.Repeat("x", 1000) + " " + os.Getenv("CANARY") + "\n"
		os.Stderr.WriteString(strings.Repeat(line, 4*floodSize/len(line))) // too much, whoever gets the cores
		go func() {
			for {
				os.Stderr.WriteString(line)
			}
		}()
	case f.is("stubborn"):
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		f.spawn(false)
		f.spawn(true)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var m frame
		if json.Unmarshal(in.Bytes(), &m) == nil && !f.is("hang") {
			f.handle(m)
		}
	}
	if f.is("stubborn") || f.is("deaf") {
		select {} // the end of its input is nothing to it
	}
}

// spawn starts a grandchild, perhaps in a session of its own. A grandchild starts nothing.
func (f *fakeServer) spawn(session bool) {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, fakeEnv+"=") })
	if os.Getenv("FAKE_GRANDCHILD") != "" {
		panic("a grandchild must not start processes")
	}
	p, err := os.StartProcess(os.Args[0], os.Args[:1], &os.ProcAttr{
		Env: append(env, fakeEnv+"=sleep", "FAKE_GRANDCHILD=1"), Files: []*os.File{nil, os.Stderr, nil}, Sys: &syscall.SysProcAttr{Setsid: session},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	p.Release()
}

func (f *fakeServer) send(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.is("garbage") {
		f.out.WriteString("Server listening on stdio!\n{\"jsonrpc\":\n[1,2]\n{}\n\x00\xff\n")
	}
	f.out.Write(append(data, '\n'))
	f.out.Flush()
}

func (f *fakeServer) reply(m frame, result any) {
	f.send(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
}

func (f *fakeServer) fail(m frame, code int, text string) {
	f.send(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": code, "message": text}})
}

func (f *fakeServer) handle(m frame) {
	caps := map[string]any{"tools": map[string]any{"listChanged": true}}
	switch m.Method {
	case "": // an answer to its question
		f.reply(f.asked, map[string]any{"content": []any{map[string]any{"type": "text", "text": string(m.Result) + string(m.Error)}}})
	case "server/discover":
		f.reply(m, map[string]any{"supportedVersions": []string{"2026-07-28"}, "capabilities": map[string]any{"tools": map[string]any{}}, "resultType": "complete"})
	case "initialize":
		if f.is("modern") {
			f.fail(m, -32601, "Method not found")
			return
		}
		f.reply(m, map[string]any{"protocolVersion": "2025-11-25", "capabilities": caps, "serverInfo": map[string]any{"name": "fake", "version": "1"}})
	case "ping":
		if f.pings++; f.is("count") && f.pings <= 10 {
			os.WriteFile(os.Getenv("FAKE_NOTE"), fmt.Appendf(nil, "%d pings", f.pings), 0o600)
		}
		switch {
		case f.is("noping"):
			f.fail(m, -32601, "Method not found")
		case !f.is("deadping"):
			f.reply(m, map[string]any{})
		}
	case "tools/list":
		if f.is("nolist") {
			os.Exit(9)
		}
		f.list(m)
	case "tools/call":
		f.call(m)
	case "notifications/cancelled":
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		json.Unmarshal(m.Params, &p)
		if f.waiting[string(p.RequestID)] {
			os.WriteFile(os.Getenv("FAKE_NOTE"), []byte("cancelled"), 0o600)
		}
	}
}

func (f *fakeServer) list(m frame) {
	var p struct{ Cursor string }
	json.Unmarshal(m.Params, &p)
	if f.is("endless") { // pages without end
		n, _ := strconv.Atoi(p.Cursor)
		f.reply(m, map[string]any{"tools": []any{map[string]any{"name": fmt.Sprint("t", n), "inputSchema": map[string]any{"type": "object"}}}, "nextCursor": fmt.Sprint(n + 1)})
		return
	}
	object := map[string]any{"type": "object"}
	names := []string{"env", "pid", "wait", "die", "huge", "grow", "echo", "fail", "odd"}
	if f.is("samples") {
		names = append(names, "sample")
	}
	if f.grown {
		names = append(names, "grown")
	}
	var tools []any
	for _, n := range names {
		tools = append(tools, map[string]any{"name": n, "description": n, "inputSchema": object, "annotations": map[string]any{"readOnlyHint": n == "pid"}})
	}
	if f.is("liar") {
		for _, n := range []string{"../x", "..-x", "", "dup", "dup", "日本", "名前", "b__mcp__other__echo", "_", strings.Repeat("n", 200), "a b", "a-b", "a_b", "x\x00y"} {
			tools = append(tools, map[string]any{"name": n, "description": strings.Repeat("d", 20000), "inputSchema": map[string]any{"type": "array"}})
		}
		tools = append(tools, nil, map[string]any{"name": "fat", "inputSchema": map[string]any{"type": "object", "description": strings.Repeat("s", 300<<10)}})
	}
	f.reply(m, map[string]any{"tools": tools})
}

func (f *fakeServer) call(m frame) {
	var p struct {
		Name      string
		Arguments map[string]any
	}
	json.Unmarshal(m.Params, &p)
	text := ""
	switch p.Name {
	case "env":
		data, _ := json.Marshal(os.Environ())
		text = string(data)
	case "pid":
		text = strconv.Itoa(os.Getpid())
	case "wait":
		f.waiting[string(m.ID)] = true
		os.WriteFile(os.Getenv("FAKE_NOTE"), []byte("called"), 0o600)
		return
	case "die":
		fmt.Fprintln(os.Stderr, "fatal: dying with "+os.Getenv("CANARY"))
		os.Exit(3)
	case "huge":
		n, _ := p.Arguments["size"].(float64)
		text = strings.Repeat("h", int(n))
	case "grow":
		f.grown = true
		f.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
		text = "ok"
	case "echo":
		text = fmt.Sprint(p.Arguments["text"])
	case "sample":
		f.mu.Lock()
		f.asked = m
		f.mu.Unlock()
		f.send(map[string]any{"jsonrpc": "2.0", "id": "question", "method": "sampling/createMessage", "params": p.Arguments})
		return
	case "fail":
		f.reply(m, map[string]any{"content": []any{map[string]any{"type": "text", "text": "it broke"}}, "isError": true})
		return
	case "odd":
		f.reply(m, map[string]any{"content": []any{map[string]any{"type": "hologram"}}})
		return
	default:
		f.fail(m, -32602, "unknown tool "+p.Name)
		return
	}
	f.reply(m, map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}})
}

// forever is longer than any test.
const forever = time.Hour
