// SPDX-License-Identifier: MIT

package installer

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

func (h Host) owns(string) bool { return true }

func as(*exec.Cmd, Account) error { return errors.New("no other user's rights on Windows") }

// Give makes an account the owner of a file or directory that root made for it.
func Give(string, Account) error { return nil }

// Flags of CreateProcess.
const (
	noConsole = 0x00000008 // DETACHED_PROCESS
	ownGroup  = 0x00000200 // CREATE_NEW_PROCESS_GROUP
	ownJob    = 0x01000000 // CREATE_BREAKAWAY_FROM_JOB
)

// apart keeps a command out of this one's console and, if its job lets it, out of that.
func apart(cmd *exec.Cmd, breakaway bool) {
	flags := uint32(noConsole | ownGroup)
	if breakaway {
		flags |= ownJob
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: flags}
}

// Code pages that stand for the machine's own.
const (
	ansiPage = 0 // CP_ACP
	oemPage  = 1 // CP_OEMCP
)

// printed is what a program printed, which may be in the code page of the console, of old
// programs, or of the machine.
func printed(text []byte) string {
	pages := []uint32{oemPage, ansiPage}
	if cp, err := windows.GetConsoleOutputCP(); err == nil && cp != 0 {
		pages = append([]uint32{cp}, pages...)
	}
	return decoded(text, pages, fromPage)
}

func fromPage(page uint32, text []byte) (string, bool) {
	const strict = 0x8 // MB_ERR_INVALID_CHARS
	n, err := windows.MultiByteToWideChar(page, strict, &text[0], int32(len(text)), nil, 0)
	if err != nil || n <= 0 {
		return "", false
	}
	wide := make([]uint16, n)
	if _, err := windows.MultiByteToWideChar(page, strict, &text[0], int32(len(text)), &wide[0], n); err != nil {
		return "", false
	}
	return windows.UTF16ToString(wide), true
}
