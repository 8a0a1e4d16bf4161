// SPDX-License-Identifier: MIT

package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Assembled is what became of a home's .env.
type Assembled struct {
	Changed bool   // false: it said so already, and was not written
	Kept    string // where the file of before is that no manager had made; "" = there was none
}

// assembledHeader begins every .env that is assembled; fileUnmanaged is what one without it
// is kept as.
const (
	assembledHeader = "# Assembled by hermes-appliance for "
	fileUnmanaged   = ".env.unmanaged"
)

// AssembleEnv writes the home's .env anew on behalf of the manager who declares it: the
// variables first, then each file as it is, so that of two lines for a name the later one
// counts. A file that is gone from parts is gone from .env. The first time, a .env that
// somebody else had made is kept beside it. The same input writes nothing. A part that is not
// there or is no text is an error, and .env stays what it was. Who may call it is as with
// [Editor.Merge]; the error is an [*Error] or that of the lock.
func (e Editor) AssembleEnv(ctx context.Context, manager string, variables map[string]string, parts []File) (a Assembled, err error) {
	if err := e.manages(manager); err != nil {
		return a, err
	}
	if err := writable(e.Home.Env(), nil, "remove the link; secrets do not belong into the store"); err != nil {
		return a, err
	}
	text, err := assemble(manager, variables, parts)
	if err != nil {
		return a, err
	}
	release, err := e.lock(ctx)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, release()) }()
	old, st, err := atomicfile.Read(e.Home.Env())
	if err != nil {
		return a, unreadable(e.Home.Env(), err)
	}
	if st.Exists && bytes.Equal(old, text) {
		return a, nil
	}
	if len(old) > 0 && !bytes.HasPrefix(old, []byte(assembledHeader)) {
		if a.Kept, err = e.keepEnv(old); err != nil {
			return a, err
		}
	}
	a.Changed = true
	return a, e.Files.Write(e.Home.Env(), text, atomicfile.Options{Mode: 0o640, Umask: true})
}

// keepEnv puts a .env of before aside, under a name that is free.
func (e Editor) keepEnv(old []byte) (string, error) {
	for n := 0; ; n++ {
		path := filepath.Join(e.Home.Dir, fileUnmanaged)
		if n > 0 {
			path += fmt.Sprintf(".%d", n)
		}
		have, st, err := atomicfile.Read(path)
		if err != nil {
			return "", unreadable(path, err)
		}
		if st.Exists && !bytes.Equal(have, old) {
			continue
		}
		if st.Exists {
			return path, nil
		}
		return path, e.Files.Write(path, old, atomicfile.Options{Mode: 0o600})
	}
}

// assemble is the text of a .env. What a file says is not read, only that it is text.
func assemble(manager string, variables map[string]string, parts []File) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(assembledHeader + manager + "; what is written here by hand is lost.\n")
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		line, ok := envLine(name, variables[name])
		if !ok {
			return nil, &Error{Kind: ErrUsage, Path: []string{name}, Msg: "no line of .env can hold this name or value", Fix: "a name has letters, digits and _; a value is one line, and not of both kinds of quotes"}
		}
		b.WriteString(line)
	}
	for _, p := range parts {
		switch _, err := dotenv.Parse(p.Data); {
		case p.Data == nil:
			return nil, &Error{Kind: ErrUnreadable, File: p.Path, Msg: "is not there", Fix: "make it, or take it out of environmentFiles"}
		case err != nil:
			return nil, &Error{Kind: ErrUnreadable, File: p.Path, Msg: err.Error(), Err: err}
		}
		data := bytes.TrimPrefix(p.Data, []byte("\xef\xbb\xbf"))
		b.Write(data)
		if len(data) > 0 && data[len(data)-1] != '\n' {
			b.WriteByte('\n')
		}
	}
	return b.Bytes(), nil
}

// plainChars need no quotes, in a shell neither.
const plainChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+,=-"

// envLine is an assignment in the first way of writing it that is read back as meant.
func envLine(name, value string) (string, bool) {
	if !isName(name) || strings.ContainsAny(value, "\r\n\x00") {
		return "", false
	}
	quotes := []string{"'", `"`, ""} // a shell that reads the file takes these for the same
	if strings.IndexFunc(value, func(r rune) bool { return !strings.ContainsRune(plainChars, r) }) < 0 {
		quotes = []string{""}
	}
	for _, q := range quotes {
		line := name + "=" + q + value + q + "\n"
		f, err := dotenv.Parse([]byte(line))
		if err != nil {
			continue
		}
		if all := f.All(); len(all) == 1 && all[0].Key == name && all[0].Value == value {
			return line, true
		}
	}
	return "", false
}
