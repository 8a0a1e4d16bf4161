// SPDX-License-Identifier: MIT

package process

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// members is empty: the job knows what belongs to a tree.
type members map[int]int

// tree is a job object. The handle is open as long as the tree is referred to.
type tree struct {
	id    string
	pid   int
	job   windows.Handle
	state *os.ProcessState
	err   error
}

func newTree(id string) *tree { return &tree{id: id} }

func (t *tree) attr(terminal bool) (*syscall.SysProcAttr, error) {
	if terminal {
		return nil, errors.ErrUnsupported
	}
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}, nil
}

// attach puts the child into a job of its own. A child that is in none is killed again.
func (t *tree) attach(p *os.Process) error {
	t.pid = p.Pid
	job, err := windows.CreateJobObject(nil, nil)
	if err == nil {
		var assigned error
		err = p.WithHandle(func(h uintptr) { assigned = windows.AssignProcessToJobObject(job, windows.Handle(h)) })
		if err == nil {
			err = assigned
		}
	}
	if err != nil {
		p.Kill()    //nolint:errcheck,gosec // the first error is the one to tell
		p.Release() //nolint:errcheck,gosec // as above
		return os.NewSyscallError("job object", err)
	}
	t.job = job
	runtime.AddCleanup(t, func(h windows.Handle) { windows.CloseHandle(h) }, job) //nolint:errcheck // nobody is left to tell
	return nil
}

func (t *tree) wait(p *os.Process) { t.state, t.err = p.Wait() }

func (t *tree) reap(*os.Process) (*os.ProcessState, error) { return t.state, t.err }

// ask sends CTRL_BREAK, which reaches what shares our console.
func (t *tree) ask(members) {
	ignore(windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(t.pid)))
}

func (t *tree) force(members) { ignore(windows.TerminateJobObject(t.job, 1)) }

func (t *tree) strike(time.Time) bool {
	t.force(nil)
	return true
}

// ignore drops the error of a kill: the next look says whether anything lives.
func ignore(error) {}

// alive names the child when any process of the job is alive.
func (t *tree) alive(members) ([]int, bool) {
	var info struct { // JOBOBJECT_BASIC_ACCOUNTING_INFORMATION
		times                                  [4]int64
		faults, total, active, totalTerminated uint32
	}
	err := windows.QueryInformationJobObject(t.job, windows.JobObjectBasicAccountingInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil)
	if err != nil {
		return nil, false
	}
	if info.active == 0 {
		return nil, true
	}
	return []int{t.pid}, true
}

// sweep has nothing to do: no process leaves its job.
func sweep([]*tree, time.Time) {}

// noFollow has no meaning here.
const noFollow = 0

// reap kills lost children that are still alive: the jobs that held their descendants are gone.
func reap(left []lost) int {
	n := 0
	for _, l := range left {
		start, err := StartTime(l.pid)
		if err != nil || start != l.start {
			continue
		}
		if p, err := os.FindProcess(l.pid); err == nil {
			if p.Kill() == nil {
				n++
			}
			p.Release() //nolint:errcheck,gosec // nothing was kept
		}
	}
	return n
}

// now is of no use here: jobs need no times.
func now() int64 { return 0 }
