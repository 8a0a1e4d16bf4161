// SPDX-License-Identifier: MIT

package tool

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// errInternal says that an address is not on the public internet.
var errInternal = errors.New("the address is not on the public internet (this machine, its network or a cloud's metadata service)")

// nonPublic are the ranges that netip has no word for (IANA's special-purpose registries).
func nonPublic() []netip.Prefix {
	var out []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10", "64:ff9b:1::/48",
	} {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// public reports whether an address is on the public internet.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if nat64 := netip.MustParsePrefix("64:ff9b::/96"); nat64.Contains(a) { // what it stands for counts
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:16]))
	}
	if b := a.As16(); a.Is6() && [12]byte(b[:12]) == [12]byte{} { // ::a.b.c.d of old
		return false
	}
	if !a.IsValid() || !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range nonPublic() {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// errMetadata says that an address hands out credentials of the machine to whoever asks.
var errMetadata = errors.New("the address belongs to a cloud's metadata service, which hands out credentials of this machine")

// metadata reports whether an address is one of a cloud's metadata services: all of link-local,
// and the few that clouds put elsewhere. No setting opens them.
func metadata(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return a.IsLinkLocalUnicast() || a == netip.AddrFrom4([4]byte{100, 100, 100, 200}) || a == netip.AddrFrom4([4]byte{168, 63, 129, 16})
	}
	if netip.MustParsePrefix("64:ff9b::/96").Contains(a) {
		b := a.As16()
		return metadata(netip.AddrFrom4([4]byte(b[12:16])))
	}
	return a == netip.MustParseAddr("fd00:ec2::254") || a == netip.MustParseAddr("fd20:ce::254")
}

// control is asked with the address that is about to be dialled, after every lookup: what a
// name meant a moment ago does not count.
func (w *Web) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if metadata(at.Addr()) && (w.allow == nil || !w.allow(at)) {
		return fmt.Errorf("%s: %w", at.Addr(), errMetadata)
	}
	if w.AllowPrivate || public(at.Addr()) || w.allow != nil && w.allow(at) {
		return nil
	}
	return fmt.Errorf("%s: %w", at.Addr(), errInternal)
}

// checkURL refuses what is no web address, and what would carry a secret away.
func (w *Web) checkURL(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	if raw != "" && !strings.Contains(raw, "://") && !strings.HasPrefix(raw, "/") {
		raw = "https://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("no valid address")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("only http and https addresses can be read, not %q", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("the address has no host")
	case u.User != nil:
		return nil, errors.New("the address has a user name or password in it: leave it out")
	}
	if w.Redact != nil {
		for _, s := range []string{u.String(), unescapeURL(u)} {
			if w.Redact(s) != s {
				return nil, errors.New("the address has a credential in it, which would be sent to that site")
			}
		}
	}
	return u, nil
}

func unescapeURL(u *url.URL) string {
	q, err := url.QueryUnescape(u.RawQuery)
	if err != nil {
		q = u.RawQuery
	}
	return u.Path + "?" + q
}
