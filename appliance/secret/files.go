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
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
)

// maxEnvFile is the size beyond which a .env is not one.
const maxEnvFile = 4 << 20

// settle is how long after its last change a file is read anew every time: a second change
// within the file system's clock tick would leave the signature as it is. It is the tick of
// the coarsest file systems in use.
const settle = 2 * time.Second

// signature identifies the content of a file as long as nobody turns back the clock.
type signature struct {
	mtime, size, ctime int64
	dev, inode         uint64
}

// Files reads .env files and remembers them while they are unchanged (S6). It is safe for
// concurrent use; make one with [NewFiles].
type Files struct {
	now func() time.Time

	mu      sync.Mutex
	entries map[string]envEntry
}

type envEntry struct {
	sig    signature
	values map[string]Text // never changed
}

// NewFiles returns an empty cache.
func NewFiles() *Files { return &Files{now: time.Now, entries: map[string]envEntry{}} }

// Read returns the assignments of a .env file in a map of the caller's own; of several lines
// of one name the last counts. A file that is missing or cannot be read is empty and the
// error says why ([fs.ErrNotExist] for a missing one): nothing of it is remembered.
func (f *Files) Read(path string) (map[string]Text, error) {
	values, err := f.read(path)
	if values == nil {
		return map[string]Text{}, err
	}
	return maps.Clone(values), err
}

// Match returns the assignments of a .env file that an environment has too, name and value
// alike: an outer process may have loaded the file. The error is that of [Files.Read].
func (f *Files) Match(path string, environ map[string]string) (map[string]string, error) {
	values, err := f.read(path)
	var out map[string]string
	for name, value := range environ {
		if text, ok := values[name]; ok && text.Reveal() == value {
			if out == nil {
				out = map[string]string{}
			}
			out[name] = value
		}
	}
	return out, err
}

// read returns a map that is shared and must not be changed.
func (f *Files) read(path string) (map[string]Text, error) {
	values, sig, fresh, err := f.load(path)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil:
		delete(f.entries, path)
	case fresh:
		f.entries[path] = envEntry{sig, values}
	}
	return values, err
}

// load reads a file unless the entry is valid; fresh says that the result may be remembered.
func (f *Files) load(path string) (values map[string]Text, sig signature, fresh bool, err error) {
	file, err := openEnv(path)
	if err != nil {
		return nil, sig, false, err
	}
	defer file.Close() //nolint:errcheck // opened for reading
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, sig, false, err
	}
	now := f.now()
	if sig, err = sign(file, info); err != nil {
		return nil, sig, false, err
	}
	f.mu.Lock()
	e, ok := f.entries[path]
	f.mu.Unlock()
	if ok && e.sig == sig {
		return e.values, sig, false, nil
	}
	if values, err = parseEnv(file); err != nil {
		return nil, sig, false, fmt.Errorf("%s: %w", path, err)
	}
	after, err := sign(file, nil)
	settled := now.UnixNano()-sig.ctime > int64(settle)
	return values, sig, err == nil && after == sig && settled, nil // what was read is good in any case
}

// Forget drops what is remembered of the files of a home.
func (f *Files) Forget(dir string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for path := range f.entries {
		if filepath.Dir(path) == filepath.Clean(dir) {
			delete(f.entries, path)
		}
	}
}

func parseEnv(r io.Reader) (map[string]Text, error) {
	src, err := io.ReadAll(io.LimitReader(r, maxEnvFile+1))
	if err != nil {
		return nil, err
	}
	if len(src) > maxEnvFile {
		return nil, fmt.Errorf("larger than %d bytes", maxEnvFile)
	}
	if src, err = decode(src); err != nil {
		return nil, err
	}
	parsed, err := dotenv.Parse(src)
	if err != nil {
		return nil, err
	}
	all := parsed.All()
	values := make(map[string]Text, len(all))
	for _, a := range all {
		values[a.Key] = Wrap(a.Value)
	}
	return values, nil
}

// missing reports whether a file is not there, as opposed to unreadable.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// sign takes the signature of an open file; info is its Stat if the caller has it.
func sign(file *os.File, info fs.FileInfo) (signature, error) {
	if info == nil {
		var err error
		if info, err = file.Stat(); err != nil {
			return signature{}, err
		}
	}
	sig := signature{mtime: info.ModTime().UnixNano(), size: info.Size()}
	err := sig.system(file, info)
	return sig, err
}
