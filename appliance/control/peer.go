// SPDX-License-Identifier: MIT

package control

import (
	"fmt"
	"net"
	"os"
)

// trusted checks who is at the other end: the same user or root. Where the system cannot
// tell, the mode of the socket is all there is.
func trusted(conn net.Conn) error { return trustedBy(conn, os.Geteuid()) }

func trustedBy(conn net.Conn, me int) error {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("not a local socket")
	}
	uid, known, err := peer(c)
	if err != nil || !known {
		return err
	}
	if uid != me && uid != 0 {
		return fmt.Errorf("the peer belongs to user %d", uid)
	}
	return nil
}
