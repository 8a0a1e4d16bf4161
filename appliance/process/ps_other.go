// SPDX-License-Identifier: MIT

//go:build unix && !linux && !darwin

package process

import "errors"

func now() int64 { return 0 }

// scan has no process table to look at: only the group is reached.
func scan(int64) ([]*proc, error) { return nil, errors.ErrUnsupported }

func startOf(int) (int64, error) { return 0, errors.ErrUnsupported }

func marks(int) (string, bool) { return "", true }
