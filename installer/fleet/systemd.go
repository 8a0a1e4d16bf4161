// SPDX-License-Identifier: MIT

package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// Systemd does to units that are there what a migration needs, through systemctl: whoever wrote them.
// It is part of a [Host]; it holds no state and is safe for concurrent use.
type Systemd struct {
	SystemDir, UserDir string // where units are, e.g. /etc/systemd/system; "" = there are none
	Default            home.Home
	Platform           string // the platform's default home, whose unit has the bare name
	UID                int    // of this process
	Owner              *int   // of the default home; nil = unknown
	Files              atomicfile.Writer
	Cgroup             string // of this process, as in /proc/self/cgroup

	// Systemctl runs systemctl with the arguments. code is its exit code; err says that it did
	// not run to its end.
	Systemctl func(ctx context.Context, args ...string) (out string, code int, err error)
	// Lookup returns the number of an account.
	Lookup func(account string) (uid int, err error)
}

func (s *Systemd) dir(system bool) string {
	if system {
		return s.SystemDir
	}
	return s.UserDir
}

// ctl runs systemctl for a scope and returns what it printed; another exit code than 0 is an error.
func (s *Systemd) ctl(ctx context.Context, system bool, args ...string) (string, error) {
	args = append([]string{"--no-ask-password"}, args...)
	if !system {
		args = append([]string{"--user"}, args...)
	}
	out, code, err := s.Systemctl(ctx, args...)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit %d: %s", code, strings.TrimSpace(out))
	}
	if err != nil {
		err = fmt.Errorf("systemctl %s: %w", strings.Join(args, " "), err)
	}
	return out, err
}

// Ready fails with the command that helps.
func (s *Systemd) Ready(ctx context.Context, of Service) error {
	switch {
	case of.Kind != "systemd" || s.dir(of.System) == "":
		return fmt.Errorf("this program cannot change services of %s here", of.Kind)
	case of.System && s.UID != 0:
		return errors.New("units of the system need root: run the same command with sudo")
	case !of.System && s.Owner != nil && *s.Owner != s.UID:
		return fmt.Errorf("these are the units of user %d: run the same command as that user", *s.Owner)
	}
	out, _, err := s.Systemctl(ctx, scope(of.System, "is-system-running")...)
	state := strings.TrimSpace(out)
	if err != nil || !slices.Contains([]string{"running", "degraded", "starting", "initializing", "maintenance"}, state) {
		fix := ""
		if !of.System {
			fix = "; log in as this user, or run: sudo loginctl enable-linger " + strconv.Itoa(s.UID)
		}
		return errors.Join(fmt.Errorf("the manager does not answer (it says %q)%s", state, fix), err)
	}
	return nil
}

func scope(system bool, args ...string) []string {
	if system {
		return args
	}
	return append([]string{"--user"}, args...)
}

// Account wants a name: the account of a new system unit is nobody's guess (H#110850).
func (s *Systemd) Account(name string) error {
	if name == "" {
		return errors.New("the other profiles' units name no User=; install the default profile's service first, then run this again")
	}
	if _, err := s.Lookup(name); err != nil {
		return fmt.Errorf("user %s: %w", name, err)
	}
	return nil
}

// Units returns what is installed for a home: every unit of the family that pins it, and the
// one of its derived name unless that is another profile's (H#109476).
func (s *Systemd) Units(ctx context.Context, h home.Home) ([]Unit, error) {
	units, err := s.installed(h)
	for i, u := range units {
		out, err := s.ctl(ctx, u.System, "show", "--property=ActiveState,UnitFileState", u.Name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(out) {
			switch name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name {
			case "ActiveState":
				units[i].Active = slices.Contains([]string{"active", "activating", "reloading"}, value)
			case "UnitFileState":
				units[i].Disabled = value == "disabled"
			}
		}
	}
	return units, err
}

// Inside reports whether this process is in the control group of a unit of a home.
func (s *Systemd) Inside(h home.Home) bool {
	units, err := s.installed(h)
	return err == nil && slices.ContainsFunc(units, func(u Unit) bool { return strings.Contains(s.Cgroup+"/", "/"+u.Name+"/") })
}

// unitName is the derived name.
func (s *Systemd) unitName(h home.Home) string {
	return service.Name(real(h.Dir), real(s.Platform)) + ".service"
}

func (s *Systemd) installed(h home.Home) (out []Unit, err error) {
	for _, system := range []bool{false, true} {
		dir := s.dir(system)
		if dir == "" {
			continue
		}
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), ".service")
			if !ok || name != service.Base && !strings.HasPrefix(name, service.Base+"-") {
				continue
			}
			u, err := s.read(system, filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			if u.Home != "" && real(u.Home) == real(h.Dir) || u.Name == s.unitName(h) && !s.profile(u.Home) {
				out = append(out, u)
			}
		}
	}
	return out, nil
}

// profile reports whether a pinned home is one of this fleet.
func (s *Systemd) profile(dir string) bool {
	return dir != "" && (real(dir) == real(s.Default.Dir) || real(filepath.Dir(dir)) == real(filepath.Join(s.Default.Dir, "profiles")))
}

// read reads a unit with its drop-ins.
func (s *Systemd) read(system bool, path string) (Unit, error) {
	u := Unit{Service: Service{"systemd", system}, Name: filepath.Base(path), UID: s.Owner}
	if to, err := os.Readlink(path); err == nil {
		u.Foreign = "it is a link to " + to
	}
	data, st, err := atomicfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, atomicfile.ErrNotRegular) {
		return u, nil // a link to nothing, or a mask: named as foreign
	}
	if err != nil {
		return u, err
	}
	u.Files = append(u.Files, File{path, uint32(st.Mode()), data})
	dropins, err := filepath.Glob(path + ".d/*.conf")
	if err != nil {
		return u, err
	}
	for _, d := range dropins {
		data, st, err := atomicfile.Read(d)
		if errors.Is(err, fs.ErrPermission) {
			continue // a layer for root's eyes; nobody else can change the unit either
		}
		if err != nil {
			return u, err
		}
		u.Files = append(u.Files, File{d, uint32(st.Mode()), data})
	}
	for _, f := range u.Files {
		s.settings(&u, string(f.Data))
	}
	return u, s.sockets(&u)
}

// sockets adds the files that we wrote for listeners that the manager holds for a unit: left where it was taken
// away, one would start what is not there.
func (s *Systemd) sockets(u *Unit) error {
	paths, err := filepath.Glob(filepath.Join(s.dir(u.System), service.Base+"*.socket"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		data, st, err := atomicfile.Read(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, atomicfile.ErrNotRegular) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return err
		}
		parsed, err := service.ParseUnit(string(data))
		if err == nil && service.Inspect(string(data)).Ours && slices.Contains(parsed.All("Socket", "Service"), u.Name) {
			u.Files = append(u.Files, File{path, uint32(st.Mode()), data})
		}
	}
	return nil
}

// listeners are the names of its socket units.
func (u Unit) listeners() (out []string) {
	for _, f := range u.Files {
		if strings.HasSuffix(f.Path, ".socket") {
			out = append(out, filepath.Base(f.Path))
		}
	}
	return out
}

// settings takes from the text of a unit whom and what it runs.
func (s *Systemd) settings(u *Unit, text string) {
	parsed, err := service.ParseUnit(text)
	if err != nil {
		return // systemd does not run it either
	}
	for _, line := range parsed.All("Service", "Environment") {
		words, err := service.Words(line, false)
		if err != nil {
			continue
		}
		for _, w := range words {
			if v, ok := strings.CutPrefix(w, home.EnvHome+"="); ok {
				u.Home = v
			}
		}
	}
	if !u.System {
		return
	}
	if u.Account == "" {
		root := 0
		u.UID = &root
	}
	if user := parsed.All("Service", "User"); len(user) > 0 {
		u.Account, u.UID = user[len(user)-1], nil
		if uid, err := s.Lookup(u.Account); err == nil {
			u.UID = &uid
		}
	}
}

// of returns the installed units of a scope.
func (s *Systemd) of(h home.Home, sv Service) ([]Unit, error) {
	units, err := s.installed(h)
	return slices.DeleteFunc(units, func(u Unit) bool { return u.Service != sv }), err
}

// each does something to every installed unit of a scope; there must be one.
func (s *Systemd) each(h home.Home, sv Service, do func(u Unit) error) error {
	units, err := s.of(h, sv)
	if err == nil && len(units) == 0 {
		err = fmt.Errorf("%s has no unit of %s", h.Dir, sv)
	}
	for _, u := range units {
		err = errors.Join(err, do(u))
	}
	return err
}

// Enable enables.
func (s *Systemd) Enable(ctx context.Context, h home.Home, sv Service) error {
	return s.each(h, sv, func(u Unit) error {
		_, err := s.ctl(ctx, sv.System, "enable", u.Name)
		return err
	})
}

// Disable disables one unit.
func (s *Systemd) Disable(ctx context.Context, _ home.Home, u Unit) error {
	_, err := s.ctl(ctx, u.System, "disable", u.Name)
	return err
}

// Start starts a unit, also one that parked itself.
func (s *Systemd) Start(ctx context.Context, h home.Home, sv Service) error {
	return s.run(ctx, h, sv, "start")
}

// Restart restarts one.
func (s *Systemd) Restart(ctx context.Context, h home.Home, sv Service) error {
	return s.run(ctx, h, sv, "restart")
}

func (s *Systemd) run(ctx context.Context, h home.Home, sv Service, verb string) error {
	return s.each(h, sv, func(u Unit) error {
		_, _, err := s.Systemctl(ctx, scope(sv.System, "--no-ask-password", "reset-failed", u.Name)...) // 1 = it did not fail
		if err != nil {
			return err
		}
		_, err = s.ctl(ctx, sv.System, verb, u.Name)
		return err
	})
}

// Uninstall stops every unit of the scope and takes its files away; drop-ins that are not ours
// stay for whoever wrote them, and come to effect again with the next installation.
func (s *Systemd) Uninstall(ctx context.Context, h home.Home, sv Service) error {
	units, err := s.of(h, sv)
	if err != nil || len(units) == 0 {
		return err
	}
	for _, u := range units {
		for _, verb := range []string{"stop", "disable"} {
			for _, name := range append(u.listeners(), u.Name) { // whoever asks a listener would start it again
				if _, err := s.ctl(ctx, sv.System, verb, name); err != nil {
					return err
				}
			}
		}
		for i, f := range u.Files {
			if i > 0 && !service.Inspect(string(f.Data)).Ours {
				continue
			}
			if err := s.Files.Remove(f.Path); err != nil {
				return err
			}
		}
		_ = os.Remove(filepath.Join(s.dir(sv.System), u.Name+".d")) //nolint:errcheck // only if it is empty
	}
	_, err = s.ctl(ctx, sv.System, "daemon-reload")
	for _, u := range units {
		s.Forget(ctx, sv, u.Name)
	}
	return err
}

// Forget has the manager drop a unit that failed and is gone, which it would list for ever.
func (s *Systemd) Forget(ctx context.Context, sv Service, unit string) {
	_, _, _ = s.Systemctl(ctx, scope(sv.System, "--no-ask-password", "reset-failed", unit)...) //nolint:errcheck // it did not fail, or is gone: either is fine
}

// Install puts files back, tells the manager, enables. What it wrote is gone again if that fails.
func (s *Systemd) Install(ctx context.Context, sv Service, files []File) error {
	var wrote, names []string
	err := func() error {
		for _, f := range files {
			if name := filepath.Base(f.Path); filepath.Dir(f.Path) == s.dir(sv.System) {
				names = append(names, name)
			}
			if have, st, err := atomicfile.Read(f.Path); err != nil || st.Exists && string(have) != string(f.Data) && !service.Inspect(string(have)).Ours {
				return errors.Join(fmt.Errorf("%s: somebody else wrote a file there meanwhile", f.Path), err)
			}
			if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil { //nolint:gosec // as systemd's own
				return err
			}
			wrote = append(wrote, f.Path)
			if err := s.Files.Write(f.Path, f.Data, atomicfile.Options{Mode: fs.FileMode(f.Mode)}); err != nil {
				return err
			}
		}
		if _, err := s.ctl(ctx, sv.System, "daemon-reload"); err != nil {
			return err
		}
		_, err := s.ctl(ctx, sv.System, append([]string{"enable"}, names...)...)
		return err
	}()
	if err != nil {
		for _, path := range wrote {
			err = errors.Join(err, s.Files.Remove(path))
		}
	}
	return err
}
