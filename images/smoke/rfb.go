// SPDX-License-Identifier: MIT

package smoke

import (
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io"
)

// rfbVersion is the first thing that both sides of RFB 3.8 say (RFC 6143, 7.1.1).
const rfbVersion = "RFB 003.008\n"

// securityNone is the only security type that a desktop may offer: what guards it is the mode
// of its socket. Another one would mean that the launcher did not decide it.
const securityNone = 1

// rfb is a viewer of a desktop over a byte stream. It reads whole frames and sends no input.
type rfb struct {
	rw            io.ReadWriter
	Width, Height int
	Name          string
}

// connectRFB speaks the handshake up to the server's first description of the screen.
func connectRFB(rw io.ReadWriter) (*rfb, error) {
	hello := make([]byte, len(rfbVersion))
	if _, err := io.ReadFull(rw, hello); err != nil {
		return nil, fmt.Errorf("the server's version: %w", err)
	}
	if string(hello) != rfbVersion {
		return nil, fmt.Errorf("the server says %q, expected %q", hello, rfbVersion)
	}
	if _, err := io.WriteString(rw, rfbVersion); err != nil {
		return nil, err
	}
	types, err := securityTypes(rw)
	if err != nil {
		return nil, err
	}
	if len(types) != 1 || types[0] != securityNone {
		return nil, fmt.Errorf("the server offers the security types %v, expected only None (%d)", types, securityNone)
	}
	if _, err := rw.Write([]byte{securityNone}); err != nil {
		return nil, err
	}
	var result uint32
	if err := binary.Read(rw, binary.BigEndian, &result); err != nil {
		return nil, fmt.Errorf("the security result: %w", err)
	}
	if result != 0 {
		reason, err := rfbText(rw)
		return nil, errors.Join(fmt.Errorf("the server refuses: %s", reason), err)
	}
	if _, err := rw.Write([]byte{1}); err != nil { // shared
		return nil, err
	}
	var init struct {
		Width, Height uint16
		Format        [16]byte
	}
	if err := binary.Read(rw, binary.BigEndian, &init); err != nil {
		return nil, fmt.Errorf("the description of the screen: %w", err)
	}
	name, err := rfbText(rw)
	if err != nil {
		return nil, err
	}
	if init.Width == 0 || init.Height == 0 || int(init.Width)*int(init.Height) > 64<<20 {
		return nil, fmt.Errorf("the screen has %dx%d pixels", init.Width, init.Height)
	}
	return &rfb{rw, int(init.Width), int(init.Height), name}, nil
}

func securityTypes(rw io.ReadWriter) ([]int, error) {
	var n uint8
	if err := binary.Read(rw, binary.BigEndian, &n); err != nil {
		return nil, fmt.Errorf("the security types: %w", err)
	}
	if n == 0 {
		reason, err := rfbText(rw)
		return nil, errors.Join(fmt.Errorf("the server refuses: %s", reason), err)
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(rw, raw); err != nil {
		return nil, fmt.Errorf("the security types: %w", err)
	}
	types := make([]int, n)
	for i, t := range raw {
		types[i] = int(t)
	}
	return types, nil
}

// rfbText reads a text with its length before it.
func rfbText(r io.Reader) (string, error) {
	var n uint32
	if err := binary.Read(r, binary.BigEndian, &n); err != nil {
		return "", err
	}
	if n > 1<<20 {
		return "", fmt.Errorf("a text of %d bytes", n)
	}
	text := make([]byte, n)
	_, err := io.ReadFull(r, text)
	return string(text), err
}

// Frame reads the whole screen once.
func (c *rfb) Frame() (*image.RGBA, error) {
	format := []byte{0, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0} // little endian, blue first
	raw := []byte{2, 0, 0, 1, 0, 0, 0, 0}
	ask := binary.BigEndian.AppendUint16([]byte{3, 0, 0, 0, 0, 0}, uint16(c.Width))
	ask = binary.BigEndian.AppendUint16(ask, uint16(c.Height))
	for _, m := range [][]byte{format, raw, ask} {
		if _, err := c.rw.Write(m); err != nil {
			return nil, err
		}
	}
	img := image.NewRGBA(image.Rect(0, 0, c.Width, c.Height))
	for seen := 0; seen < c.Width*c.Height; {
		n, err := c.message(img)
		if err != nil {
			return nil, err
		}
		seen += n
	}
	return img, nil
}

// message reads one message of the server and returns how many pixels it drew.
func (c *rfb) message(img *image.RGBA) (pixels int, err error) {
	var kind uint8
	if err := binary.Read(c.rw, binary.BigEndian, &kind); err != nil {
		return 0, err
	}
	switch kind {
	case 0:
		return c.update(img)
	case 2: // bell
		return 0, nil
	case 3: // cut text
		if _, err := io.CopyN(io.Discard, c.rw, 3); err != nil {
			return 0, err
		}
		_, err := rfbText(c.rw)
		return 0, err
	}
	return 0, fmt.Errorf("the server sends a message of type %d, which nobody asked for", kind)
}

func (c *rfb) update(img *image.RGBA) (pixels int, err error) {
	var head struct {
		_ uint8
		N uint16
	}
	if err := binary.Read(c.rw, binary.BigEndian, &head); err != nil {
		return 0, err
	}
	for range head.N {
		var r struct {
			X, Y, W, H uint16
			Encoding   int32
		}
		if err := binary.Read(c.rw, binary.BigEndian, &r); err != nil {
			return 0, err
		}
		x, y, w, h := int(r.X), int(r.Y), int(r.W), int(r.H)
		if r.Encoding != 0 || x+w > c.Width || y+h > c.Height {
			return 0, fmt.Errorf("the server draws %dx%d at %d,%d in encoding %d", w, h, x, y, r.Encoding)
		}
		row := make([]byte, 4*w)
		for dy := range h {
			if _, err := io.ReadFull(c.rw, row); err != nil {
				return 0, err
			}
			for dx := range w {
				p := row[4*dx:]
				img.SetRGBA(x+dx, y+dy, color.RGBA{p[2], p[1], p[0], 255})
			}
		}
		pixels += w * h
	}
	return pixels, nil
}

// colours counts the colours of a screen, and the share of the most frequent one.
func colours(img *image.RGBA) (n int, most float64) {
	count := map[color.RGBA]int{}
	top := 0
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := img.RGBAAt(x, y)
			count[c]++
			top = max(top, count[c])
		}
	}
	return len(count), float64(top) / float64(b.Dx()*b.Dy())
}
