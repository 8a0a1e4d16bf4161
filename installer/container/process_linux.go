// SPDX-License-Identifier: MIT

package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// Become makes root id for good and runs a program in this process's place: groups, group and
// user, all three ids of each, and no way back through a program that gives rights. It returns
// only with an error.
func Become(id Identity, argv, env []string) error {
	runtime.LockOSThread() // the last of these is a thread's own, and this thread is what is left
	defer runtime.UnlockOSThread()
	if err := syscall.Setgroups(id.Groups); err != nil {
		return fmt.Errorf("give up root's groups: %w", err)
	}
	if err := syscall.Setresgid(id.GID, id.GID, id.GID); err != nil {
		return fmt.Errorf("become group %d: %w", id.GID, err)
	}
	if err := syscall.Setresuid(id.UID, id.UID, id.UID); err != nil {
		return fmt.Errorf("become user %d: %w", id.UID, err)
	}
	if groups, err := os.Getgroups(); err != nil || !slices.Equal(sorted(groups), sorted(id.Groups)) || os.Getuid() != id.UID || os.Geteuid() != id.UID {
		return fmt.Errorf("this is still user %d with groups %v, not user %d", os.Geteuid(), groups, id.UID)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("rule out new rights: %w", err)
	}
	return Exec(argv, env)
}

func sorted(ids []int) []int {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Exec runs a program in this process's place. It returns only with an error.
func Exec(argv, env []string) error {
	if err := syscall.Exec(argv[0], argv, env); err != nil {
		return fmt.Errorf("run %s: %w", argv[0], err)
	}
	return nil
}

// Usable says whether this process can keep a home there; if not, the [*ConfigError] says who
// owns it and what to start the container with.
func Usable(home string) error {
	uid, gid := os.Geteuid(), os.Getegid()
	var st unix.Stat_t
	err := unix.Stat(home, &st)
	if err == nil {
		if err = unix.Access(home, unix.R_OK|unix.W_OK|unix.X_OK); err == nil {
			return readable(home)
		}
	} else if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(home, 0o700); err == nil {
			return nil
		}
	}
	problem := fmt.Sprintf("%s cannot be used by user %d, group %d: %v", home, uid, gid, err)
	if errors.Is(err, unix.EROFS) {
		return &ConfigError{problem, "Mount something there that can be written: -v hermes:" + home}
	}
	fix := "Mount a volume there that this user owns, or start the container once as root, which makes it: --user 0:0"
	if st.Nlink > 0 {
		problem += fmt.Sprintf("; it belongs to %d:%d", st.Uid, st.Gid)
		fix = fmt.Sprintf("Start the container as its owner: --user %d:%d; or as root, which becomes its owner for good: --user 0:0 "+
			"(with PUID and PGID to make it another's); or give the directory away: chown %d:%d DIRECTORY.", st.Uid, st.Gid, uid, gid)
		if st.Uid == 0 {
			fix = fmt.Sprintf("Start the container as root, which gives it to user %d and becomes that: --user 0:0 (with PUID and PGID to "+
				"choose); or give the directory away: chown %d:%d DIRECTORY.", Default, uid, gid)
		}
	}
	return &ConfigError{problem, fix}
}

// readable finds files of the home that a command as root left behind (H#10270).
func readable(home string) error {
	fd, err := unix.Open(home, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", home, err)
	}
	defer unix.Close(fd) //nolint:errcheck // opened for reading
	for _, name := range []string{"config.yaml", ".env", "SOUL.md", "state.db", "gateway.lock", "logs", "logs/gateway.log", "memories", "sessions", "cron", ".appliance"} {
		if err := unix.Faccessat(fd, name, unix.R_OK, 0); errors.Is(err, unix.EACCES) {
			return &ConfigError{
				fmt.Sprintf("%s/%s cannot be read by user %d: a command as another user, probably root, left it", home, name, os.Geteuid()),
				"Start the container once as root, which gives Hermes' own files back and goes on as their owner: --user 0:0",
			}
		}
	}
	return nil
}

// Init is process 1 of a container: it starts a program, passes a stop (the end of ctx, as
// SIGTERM) and each drain (as SIGUSR1) on to it, and reaps whatever loses its parent. It returns
// the exit code of the program, 128 and the signal's number if a signal ended it; the kernel
// then ends what is left.
func Init(ctx context.Context, argv, env []string, drain <-chan struct{}) (exitcode.Code, error) {
	// An os.Process wants to be waited for by itself, which waiting for everything takes from it.
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}})
	if err != nil {
		return exitcode.Error, fmt.Errorf("run %s: %w", argv[0], err)
	}
	ended := make(chan struct{})
	go func() {
		stop := ctx.Done()
		for {
			var sig syscall.Signal
			select {
			case <-ended:
				return
			case <-stop:
				sig, stop = syscall.SIGTERM, nil
			case <-drain:
				sig = syscall.SIGUSR1
			}
			// Numbers are given in turn: it is nobody else's right after its end.
			syscall.Kill(pid, sig) //nolint:errcheck // it has ended
		}
	}()
	for {
		var ws syscall.WaitStatus
		got, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return exitcode.Error, fmt.Errorf("wait for %s: %w", argv[0], err)
		case got == pid:
			close(ended)
			if ws.Signaled() {
				return exitcode.Code(128 + int(ws.Signal())), nil
			}
			return exitcode.Code(ws.ExitStatus()), nil
		}
	}
}
