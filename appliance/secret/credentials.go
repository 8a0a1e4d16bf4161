// SPDX-License-Identifier: MIT

package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// Credentials are the secrets that the service manager handed to this process as files, by the
// id of the profile they are for ("" = the one the process was started for), then by name.
type Credentials map[string]map[string]Text

// CredentialError says which file of the credentials directory cannot be used. It holds no value.
type CredentialError struct {
	File string // path
	Msg  string
}

func (e *CredentialError) Error() string { return "credential " + e.File + ": " + e.Msg }

// maxCredential is what systemd takes, too.
const maxCredential = 1 << 20

// envCredential is the credential that is a list of NAME=value lines.
const envCredential = "env"

// ReadCredentials reads a credentials directory (systemd.exec(5)): the file NAME is the value of
// the variable NAME, without one line break at its end, and the file "env" holds NAME=value
// lines; PROFILE.NAME and PROFILE.env are for that profile of the home. Whatever else is there,
// is empty, cannot be read or says one name twice is a [*CredentialError]: nobody is to run on
// half of the secrets that he was given. Names that begin with a dot are skipped.
func ReadCredentials(dir string) (Credentials, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, &CredentialError{dir, "the directory that CREDENTIALS_DIRECTORY names cannot be read: " + reason(err)}
	}
	out := Credentials{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if err := out.add(path, e.Name()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c Credentials) add(path, file string) error {
	bad := func(msg string) error { return &CredentialError{path, msg} }
	profile, name, of := strings.Cut(file, ".")
	if !of {
		profile, name = "", file
	}
	if name != envCredential && !validName(name) || of && !home.ValidID(profile) {
		return bad("its name says nothing here; want NAME, PROFILE.NAME, env or PROFILE.env, where NAME is a variable")
	}
	text, err := readCredential(path)
	if err != nil {
		return bad(reason(err))
	}
	values := map[string]Text{name: Wrap(strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"))}
	if name == envCredential {
		if values, err = credentialLines(text); err != nil {
			return bad(err.Error())
		}
	}
	if c[profile] == nil {
		c[profile] = map[string]Text{}
	}
	for _, name := range sorted(values) {
		switch v := values[name]; {
		case v.Empty():
			return bad(name + " is empty")
		case !utf8.ValidString(v.Reveal()), strings.IndexByte(v.Reveal(), 0) >= 0:
			return bad(name + " is no text")
		}
		if _, twice := c[profile][name]; twice {
			return bad("another credential has " + name + ", too; keep one of them")
		}
		c[profile][name] = values[name]
	}
	return nil
}

// credentialLines reads NAME=value lines. Other than in a .env, a line that is neither that nor a
// comment is an error.
func credentialLines(text string) (map[string]Text, error) {
	parsed, err := dotenv.Parse([]byte(text))
	if err != nil {
		return nil, errors.New("is no list of NAME=value lines")
	}
	out, lines := map[string]Text{}, map[int]bool{}
	for _, a := range parsed.All() {
		if _, twice := out[a.Key]; twice {
			return nil, fmt.Errorf("line %d: %s is there twice", a.Line, a.Key)
		}
		if validName(a.Key) {
			out[a.Key], lines[a.Line] = Wrap(a.Value), true
		}
	}
	for i, line := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !lines[i+1] {
			return nil, fmt.Errorf("line %d: want NAME=value", i+1)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("has no NAME=value line")
	}
	return out, nil
}

func readCredential(path string) (string, error) {
	f, err := openEnv(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is no file")
	}
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxCredential+1))
	if err == nil && len(data) > maxCredential {
		err = fmt.Errorf("is larger than %d bytes", maxCredential)
	}
	return string(data), err
}

// reason is an error without the path that is said already.
func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// For returns what is for one profile, given the one the process was started for, and checks
// that no name is there under both of its names ("" and its id).
func (c Credentials) For(profile, launch string) (map[string]Text, error) {
	if profile != launch {
		return c[profile], nil
	}
	out := maps.Clone(c[""])
	for _, name := range sorted(c[profile]) {
		if _, twice := out[name]; twice {
			return nil, &CredentialError{name, "is there twice, also as " + profile + "." + name + "; keep one of them"}
		}
		if out == nil {
			out = map[string]Text{}
		}
		out[name] = c[profile][name]
	}
	return out, nil
}
