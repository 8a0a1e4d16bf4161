// SPDX-License-Identifier: MIT

// Package checkpoint keeps snapshots of a working directory, so that what an agent did to its
// files can be undone. All directories of a home share one git store, in the layout that
// upstream writes (sandbox spec §7): unchanged content is stored once. It gives Take, List,
// Diff, Restore and Prune. It never touches a repository of the user's, never reads git
// settings from outside the store, never runs a hook or a filter, and never deletes a file
// that no checkpoint holds.
//
// # What a checkpoint holds
//
// Regular files and symbolic links, with their bytes and the executable bit. Not other
// permission bits, owners, times or empty directories; not what the directory's .gitignore
// files or the store's info/exclude name; not files above the size limit, files that cannot be
// read, or repositories nested in the directory: the last three are listed in
// [Checkpoint.Left].
package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// The limits of a store that are not set.
const (
	MaxFiles     = 50_000           // files in a directory; more are refused
	MaxFileSize  = int64(10) << 20  // bytes; a larger file is left out
	MaxSnapshots = 20               // checkpoints of one directory; older ones are let go
	Timeout      = 30 * time.Second // of one git command; settable from MinTimeout to MaxTimeout
	MinTimeout   = 10 * time.Second
	MaxTimeout   = 60 * time.Second
)

var (
	// ErrTooMany says that a directory has more files than the limit. Nothing was stored.
	ErrTooMany = errors.New("too many files for a checkpoint")
	// ErrTooBroad says that a directory is no project: the root, a user's home, or one that
	// holds the store itself.
	ErrTooBroad = errors.New("too broad for a checkpoint")
	// ErrNotFound says that a directory has no such checkpoint.
	ErrNotFound = errors.New("no such checkpoint")
	// ErrInvalid says that a hash or a path cannot be meant.
	ErrInvalid = errors.New("not valid")
)

// Options say where a store is and how its git is run.
type Options struct {
	Dir string // <home>/checkpoints; its parent must exist
	Git string // a path, or a name that is looked up in the PATH of Env; "" = git
	// Env is where git's PATH and directory for temporary files come from; nothing else of it
	// is handed on.
	Env       []string
	Processes *process.Registry
	Log       *slog.Logger
	Now       func() time.Time

	Broad []string // directories that are no projects, beside the root: a user's home

	MaxFiles     int           // 0 = the constant MaxFiles
	MaxFileSize  int64         // 0 = the constant MaxFileSize; below 0 = no limit
	MaxSnapshots int           // 0 = the constant MaxSnapshots
	Timeout      time.Duration // 0 = the constant Timeout; others are brought into its bounds
}

// Store is the checkpoints of one home. It is safe for concurrent use, also by several
// processes: a file lock beside the store orders them.
type Store struct {
	o     Options
	dir   string // of the git store
	files atomicfile.Writer
}

// New returns a store. It touches nothing: the directory is made by the first Take.
func New(o Options) *Store {
	if o.Git == "" {
		o.Git = "git"
	}
	if o.MaxFiles == 0 {
		o.MaxFiles = MaxFiles
	}
	if o.MaxFileSize == 0 {
		o.MaxFileSize = MaxFileSize
	}
	if o.MaxSnapshots <= 0 {
		o.MaxSnapshots = MaxSnapshots
	}
	if o.Timeout == 0 {
		o.Timeout = Timeout
	}
	o.Timeout = min(max(o.Timeout, MinTimeout), MaxTimeout)
	return &Store{o: o, dir: filepath.Join(o.Dir, "store")}
}

// Checkpoint is one snapshot.
type Checkpoint struct {
	Hash   string // "" = none was taken, as nothing has changed
	Time   time.Time
	Reason string
	// Left are the paths that it does not hold although nothing excludes them, with a slash
	// at the end of a nested repository. Only Take fills it in.
	Left []string
}

// project is a directory and its places in the store.
type project struct {
	dir string // absolute, without links
	id  string
}

func (p project) ref() string { return "refs/hermes/" + p.id }

func projectID(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:])[:16]
}

// project says which project a directory is.
func (s *Store) project(workdir string) (project, error) {
	if !filepath.IsAbs(workdir) {
		return project{}, fmt.Errorf("%w: working directory %q is not absolute", ErrInvalid, workdir)
	}
	dir, err := filepath.EvalSymlinks(workdir)
	if err != nil {
		return project{}, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return project{}, err
	}
	if !info.IsDir() {
		return project{}, fmt.Errorf("%s: %w: not a directory", workdir, ErrInvalid)
	}
	if filepath.Dir(dir) == dir {
		return project{}, fmt.Errorf("%s: %w: it is everything; name a project's directory", workdir, ErrTooBroad)
	}
	for _, broad := range s.o.Broad {
		if real, err := filepath.EvalSymlinks(broad); err == nil && real == dir {
			return project{}, fmt.Errorf("%s: %w: it is a home directory; name a project's directory", workdir, ErrTooBroad)
		}
	}
	if inside(dir, resolved(s.o.Dir)) {
		return project{}, fmt.Errorf("%s: %w: it holds the checkpoints themselves", workdir, ErrTooBroad)
	}
	return project{dir: dir, id: projectID(dir)}, nil
}

// resolved follows the links of a path whose last part may be missing.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if real, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(real, filepath.Base(path))
	}
	return filepath.Clean(path)
}

func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

var hashPattern = regexp.MustCompile(`^[0-9a-fA-F]{4,64}$`)

// checkHash refuses what git could take for an option or an expression.
func checkHash(hash string) error {
	if !hashPattern.MatchString(hash) {
		return fmt.Errorf("checkpoint %q: %w: expected 4 to 64 hexadecimal digits", hash, ErrInvalid)
	}
	return nil
}

// checkPaths brings relative paths into git's form and refuses all that leave the directory.
func checkPaths(paths []string) ([]string, error) {
	var out []string
	for _, p := range paths {
		if strings.TrimSpace(p) == "" || strings.ContainsRune(p, 0) || !filepath.IsLocal(p) {
			return nil, fmt.Errorf("path %q: %w: expected one relative to the working directory and inside it", p, ErrInvalid)
		}
		p = filepath.ToSlash(filepath.Clean(p))
		if p == "." {
			return nil, nil // everything
		}
		out = append(out, p)
	}
	return out, nil
}

// lock orders the users of the store.
func (s *Store) lock(ctx context.Context) (release func(), err error) {
	if err := s.files.Mkdir(s.o.Dir, 0o700); err != nil {
		return nil, err
	}
	unlock, err := home.LockFile(ctx, s.dir)
	if err != nil {
		return nil, err
	}
	return func() {
		if err := unlock(); err != nil {
			s.o.Log.Warn("lock of the checkpoint store", "error", err)
		}
	}, nil
}

// exists reports whether the store was made.
func (s *Store) exists() (bool, error) {
	_, err := os.Stat(filepath.Join(s.dir, "HEAD"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// open makes the store, or completes one that a crash left half made.
func (s *Store) open(ctx context.Context) error {
	ok, err := s.exists()
	if err != nil {
		return err
	}
	if !ok {
		if err := s.files.Mkdir(s.dir, 0o700); err != nil {
			return err
		}
		// An empty template: the system's could bring hooks.
		if _, err := s.git(ctx, call{args: []string{"init", "--quiet", "--bare", "--template=", s.dir}, dir: s.o.Dir}); err != nil {
			return err
		}
	}
	for _, dir := range []string{"info", "indexes", "projects", "ledgers"} {
		if err := s.files.Mkdir(filepath.Join(s.dir, dir), 0o700); err != nil {
			return err
		}
	}
	exclude := filepath.Join(s.dir, "info", "exclude")
	if _, err := os.Stat(exclude); errors.Is(err, fs.ErrNotExist) {
		if err := s.files.Write(exclude, []byte(strings.Join(excludes(), "\n")+"\n"), atomicfile.Options{}); err != nil {
			return err
		}
	}
	attributes := filepath.Join(s.dir, "info", "attributes")
	if data, err := os.ReadFile(attributes); err == nil && string(data) == verbatim {
		return nil
	}
	return s.files.Write(attributes, []byte(verbatim), atomicfile.Options{})
}

// verbatim makes git store every byte as it is, whatever the directory's .gitattributes say:
// info/attributes wins over them.
const verbatim = "* -text -crlf -ident -filter !eol !working-tree-encoding\n"

// excludes are the names that no checkpoint holds, as upstream has them: what is made again by
// a build, what is large, and secrets. The owner may edit the store's info/exclude.
func excludes() []string {
	return slices.Concat(
		[]string{"node_modules/", "dist/", "build/", "target/", "out/", ".next/", ".nuxt/"},
		[]string{"__pycache__/", "*.pyc", "*.pyo", ".cache/", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", "coverage/", ".coverage"},
		[]string{".venv/", "venv/", "env/", ".git/", ".hg/", ".svn/", ".worktrees/"},
		[]string{"*.so", "*.dylib", "*.dll", "*.o", "*.a", "*.jar", "*.class", "*.exe", "*.obj"},
		[]string{"*.mp4", "*.mov", "*.mkv", "*.webm", "*.zip", "*.tar", "*.tar.gz", "*.tgz", "*.7z", "*.rar", "*.iso"},
		[]string{".env", ".env.*", ".DS_Store", "Thumbs.db", "*.log"},
	)
}
