// SPDX-License-Identifier: MIT

package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Runner runs scripts in a terminal backend, in full fidelity: stdin arrives byte for byte and
// stdout comes back whole, neither bounded nor redacted.
type Runner interface {
	// Run runs a script with the backend's shell in its working directory, with its user's
	// environment. A script that ran is no error whatever its exit code; an error means that the
	// backend could not run it. stdin nil = none.
	Run(ctx context.Context, script string, stdin []byte) (Output, error)
}

// Output is what a script left.
type Output struct {
	Stdout []byte
	Code   int
}

// Shell is the inside of a terminal backend, reached through its shell. It needs sh and the
// tools of POSIX there, and readlink or realpath; ripgrep makes searches faster.
type Shell struct {
	Label  string // names the machine for people, as in "docker sandbox" or "ssh dev@build"
	Runner Runner
}

// Name implements [Host].
func (s *Shell) Name() string { return s.Label }

// Local implements [Host].
func (*Shell) Local() bool { return false }

// run runs one script and returns what its main said.
func (s *Shell) run(ctx context.Context, body string, stdin []byte, args ...string) ([]byte, int, error) {
	for _, a := range args {
		if strings.ContainsRune(a, 0) {
			return nil, 0, fmt.Errorf("%q: a path has no NUL in it", a)
		}
	}
	fence := "__HERMES_FILES_" + rand.Text() + "__"
	out, err := s.Runner.Run(ctx, command(body, fence, len(stdin) > 0, args...), stdin)
	if err != nil {
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		return nil, 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	payload, code, err := answer(out.Stdout, fence)
	if err != nil && out.Code != 0 {
		err = fmt.Errorf("%w (exit code %d)", err, out.Code)
	}
	return payload, code, err
}

// failure makes an error of a code that a script's main returned.
func failure(p string, code int) error {
	reasons := map[int]error{
		codeDangling: ErrDangling, codeNotDir: errors.New("a part of the path is not a directory"), codeNoHome: ErrNoHome,
		codeMoved: ErrMoved, codeDiffers: ErrDiffers, codeIrregular: ErrNotRegular, codeTooLarge: ErrTooLarge,
		codeIO:      errors.New("permission denied, or the disk is full"),
		codeNoTool:  errors.New("it has neither readlink nor realpath"),
		codePattern: errors.New("the machine's own search tools do not understand this pattern: write it simpler (no lookaround, no \\p{…}), or install ripgrep there"),
	}
	if err := reasons[code]; err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	return fmt.Errorf("%s: the backend's shell failed with code %d", p, code)
}

var userPath = regexp.MustCompile(`^~[A-Za-z0-9._][A-Za-z0-9._-]*(/|$)`)

// Locate implements [Host].
func (s *Shell) Locate(ctx context.Context, p string) (Place, error) {
	kind := "plain"
	if userPath.MatchString(p) {
		kind = "user"
	}
	payload, code, err := s.run(ctx, locateScript, nil, p, kind)
	if err != nil {
		return Place{}, err
	}
	if code != 0 {
		return Place{}, failure(p, code)
	}
	f := fields(payload)
	if len(f) != 8 {
		return Place{}, fmt.Errorf("%w: its answer has %d parts instead of 8", ErrUnavailable, len(f))
	}
	at := Place{Path: f[1], Abs: f[2], Dir: f[3], Home: f[4], Stamp: f[7]}
	at.Kind = map[string]Kind{"f": Regular, "d": Directory, "o": Other, "m": Missing}[f[0]]
	return at, at.numbers(f[5], f[6])
}

func (at *Place) numbers(size, mode string) error {
	var err error
	if at.Size, err = strconv.ParseInt(size, 10, 64); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	m, err := strconv.ParseUint(mode, 8, 32)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	at.Mode = fs.FileMode(m) & fs.ModePerm
	return nil
}

// Read implements [Host].
func (s *Shell) Read(ctx context.Context, at Place, limit int64) ([]byte, error) {
	data, code, err := s.run(ctx, readScript, nil, at.Path, strconv.FormatInt(limit, 10))
	switch {
	case err != nil:
		return nil, err
	case code == codeTooLarge || code == 0 && int64(len(data)) > limit:
		return nil, fmt.Errorf("%s: %w: more than %s", at.Path, ErrTooLarge, bytesText(limit))
	case code != 0:
		return nil, failure(at.Path, code)
	}
	return data, nil
}

// Page implements [Host].
func (s *Shell) Page(ctx context.Context, at Place, want PageRange) (Page, error) {
	n := strconv.Itoa
	data, code, err := s.run(ctx, pageScript, nil, at.Path, n(want.From), n(want.To), n(want.Width), n(sampleSize), n(want.Bytes))
	if err != nil {
		return Page{}, err
	}
	if code != 0 {
		return Page{}, failure(at.Path, code)
	}
	parts := bytes.SplitN(data, []byte{0}, 5)
	if len(parts) != 5 {
		return Page{}, fmt.Errorf("%w: its answer has %d parts instead of 5", ErrUnavailable, len(parts))
	}
	var p Page
	var errs [4]error
	p.Size, errs[0] = strconv.ParseInt(string(parts[0]), 10, 64)
	p.Newlines, errs[1] = strconv.Atoi(string(parts[1]))
	p.Ended = string(parts[2]) == "1"
	if p.Sample, errs[2] = decodePayload(parts[3]); p.Size == 0 {
		errs[2] = nil
	}
	if err := errors.Join(errs[:]...); err != nil {
		return p, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	body := bytes.TrimSuffix(parts[4], []byte("\n")) // cut ends every line
	if len(parts[4]) > 0 {
		p.Lines = bytes.Split(body, []byte("\n"))
	}
	if len(parts[4]) >= want.Bytes && len(p.Lines) > 1 { // the last one may be cut
		p.Lines = p.Lines[:len(p.Lines)-1]
	}
	return p, nil
}

// Write implements [Host].
func (s *Shell) Write(ctx context.Context, at Place, data []byte, mode fs.FileMode) (Place, bool, error) {
	kind := "old"
	if at.Kind == Missing {
		kind = "new"
	}
	temp := "." + rand.Text() + ".hermes-new"
	payload, code, err := s.run(ctx, writeScript, data, at.Path, kind, at.Stamp, atomicfile.Hash(data), temp, strconv.FormatUint(uint64(mode), 8), strconv.Itoa(len(data)))
	if err != nil {
		return at, false, err
	}
	if code != 0 {
		return at, false, failure(at.Path, code)
	}
	f := fields(payload)
	if len(f) != 4 {
		return at, false, fmt.Errorf("%w: its answer has %d parts instead of 4", ErrUnavailable, len(f))
	}
	at.Kind, at.Stamp = Regular, f[3]
	return at, f[0] == "1", at.numbers(f[1], f[2])
}

// Remove implements [Host].
func (s *Shell) Remove(ctx context.Context, at Place) error {
	if at.Kind != Regular {
		return fmt.Errorf("%s: %w", at.Path, ErrNotRegular)
	}
	_, code, err := s.run(ctx, removeScript, nil, at.Path, at.Stamp)
	if err == nil && code != 0 {
		err = failure(at.Path, code)
	}
	return err
}

// Keep writes data into a private directory for temporary files on the host, makes sure that
// every byte is there, and returns the path. name is a file's name without a slash.
func (s *Shell) Keep(ctx context.Context, name string, data []byte) (string, error) {
	if name == "" || strings.Contains(name, "/") || name == "." || name == ".." {
		return "", fmt.Errorf("%q is no name of a file", name)
	}
	payload, code, err := s.run(ctx, keepScript, data, name, strconv.Itoa(len(data)))
	if err != nil {
		return "", err
	}
	f := fields(payload)
	if code != 0 || len(f) != 1 {
		return "", failure("hermes-results/"+name, code)
	}
	return f[0], nil
}

// Names implements [Host].
func (s *Shell) Names(ctx context.Context, dir string, limit int) ([]string, error) {
	payload, code, err := s.run(ctx, namesScript, nil, dir)
	if err != nil {
		return nil, err
	}
	if code != 0 && len(payload) == 0 {
		return nil, &os.PathError{Op: "list", Path: dir, Err: fs.ErrNotExist}
	}
	f := fields(payload)
	return f[:min(len(f), limit)], nil
}

// below returns the path of p from root on.
func below(root, p string) string {
	if p == root {
		return path.Base(p)
	}
	return strings.TrimPrefix(strings.TrimPrefix(p, root), "/")
}
