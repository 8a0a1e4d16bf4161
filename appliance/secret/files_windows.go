// SPDX-License-Identifier: MIT

package secret

import (
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

func openEnv(path string) (*os.File, error) { return os.Open(path) }

// basicInfo is FILE_BASIC_INFO.
type basicInfo struct {
	CreationTime, LastAccessTime, LastWriteTime, ChangeTime int64
	Attributes, _                                           uint32
}

// system adds what only the system knows. ChangeTime counts 100 ns since 1601.
func (s *signature) system(file *os.File, _ fs.FileInfo) error {
	h := windows.Handle(file.Fd())
	var id windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &id); err != nil {
		return &fs.PathError{Op: "stat", Path: file.Name(), Err: err}
	}
	var basic basicInfo
	if err := windows.GetFileInformationByHandleEx(h, windows.FileBasicInfo, (*byte)(unsafe.Pointer(&basic)), uint32(unsafe.Sizeof(basic))); err != nil {
		return &fs.PathError{Op: "stat", Path: file.Name(), Err: err}
	}
	const epoch = 116444736000000000
	s.ctime = (basic.ChangeTime - epoch) * 100
	s.dev, s.inode = uint64(id.VolumeSerialNumber), uint64(id.FileIndexHigh)<<32|uint64(id.FileIndexLow)
	return nil
}
