// SPDX-License-Identifier: MIT

package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
)

const canary = `canary "s3cr3t"/+=ü`

// leaks reports whether text shows the secret, also encoded.
func leaks(text, secret string) bool {
	quoted, _ := json.Marshal(secret)
	for _, form := range []string{
		secret, strings.Trim(string(quoted), `"`), fmt.Sprintf("%q", secret), fmt.Sprintf("%+q", secret),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))), fmt.Sprintf("% x", secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret)),
		url.QueryEscape(secret), url.PathEscape(secret), fmt.Sprintf("%d", []byte(secret)), "s3cr3t",
	} {
		if strings.Contains(text, strings.Trim(form, `"`)) {
			return true
		}
	}
	return false
}

type wrapper struct {
	Text   Text
	hidden Text
	Ptr    *Text
	Any    any
	inner  Value
}

func TestTextPrints(t *testing.T) {
	t.Parallel()
	x := Wrap(canary)
	v := Value{"NAME", x, Origin{DotEnv, "", "/home"}}
	scope := &Scope{}
	scope.now.Store(layers{global: func(string) bool { return false }, own: map[string]Text{"NAME": x}}.build())
	things := map[string]any{
		"text": x, "pointer": &x, "value": v, "value pointer": &v, "scope": scope,
		"wrapper": wrapper{x, x, &x, x, v}, "wrapper pointer": &wrapper{x, x, &x, &v, v},
		"slice": []Text{x}, "map": map[string]Text{"k": x}, "key": map[Text]int{x: 1}, "array": [1]any{x},
		"input": Input{Vars: map[string]Text{"k": x}}, "fetched": Fetched{Values: map[string]Text{"k": x}},
		"claim": claim{text: x}, "snapshot": &Snapshot{claims: map[string]claim{"k": {text: x}}, last: map[string]map[string]good{"s": {"k": {text: x}}}},
		"error": fmt.Errorf("reading %v of %s: %w", x, v, errors.New("e")),
	}
	for name, thing := range things {
		for verb := range strings.FieldsSeq("%v %+v %#v %s %q %x %X %d %t %e %c %U %p %b %o %w %T %10v %-30s %+q %#x") {
			if got := fmt.Sprintf(verb, thing); leaks(got, canary) {
				t.Errorf("%s with %s shows the secret: %s", name, verb, got)
			}
		}
		wrong := []string{"none", "%[3]v %*d %!"} // formats
		for _, got := range []string{fmt.Sprint(thing), fmt.Sprintln(thing), fmt.Sprintf(wrong[0], thing), fmt.Sprintf(wrong[1], thing), encode(t, thing)} {
			if leaks(got, canary) {
				t.Errorf("%s shows the secret: %s", name, got)
			}
		}
	}
	for _, got := range []string{fmt.Sprint(x), fmt.Sprintf("%x", x), fmt.Sprintf("%#v", x), x.LogValue().String()} {
		if got != Mask {
			t.Errorf("got %q, want the mask", got)
		}
	}
	if got := x.Reveal(); got != canary {
		t.Errorf("Reveal: got %q", got)
	}
}

// encode writes a thing in all ways that a log, a file or a template might.
func encode(t *testing.T, thing any) string {
	t.Helper()
	var b bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		log := slog.New(h)
		log.Info("m", "thing", thing)
		log.With("thing", thing).WithGroup("g").Error("m", "thing", thing)
	}
	if data, err := json.MarshalIndent(thing, "", " "); err == nil {
		b.Write(data)
	}
	if data, err := xml.Marshal(thing); err == nil {
		b.Write(data)
	}
	_ = gob.NewEncoder(&b).Encode(thing)
	_ = template.Must(template.New("").Parse(`{{.}} {{printf "%v %q" . .}} {{html .}} {{js .}} {{urlquery .}}`)).Execute(&b, thing)
	return b.String()
}

func TestTextPanics(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"panicker", "panicker2"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(self, path); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), path).CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("panic")) {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		if leaks(string(out), canary) {
			t.Errorf("%s shows the secret: %s", name, out)
		}
	}
}

func TestTextNoWayBack(t *testing.T) {
	t.Parallel()
	var x Text
	if err := json.Unmarshal([]byte(`"***"`), &x); err == nil { //nolint:staticcheck // that it cannot be decoded is the point
		t.Error("the mask was taken for a secret")
	}
}

func TestTextEqual(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{{"", "", true}, {"a", "a", true}, {"a", "b", false}, {"a", "", false}, {"a", "ab", false}} {
		if got := Wrap(c.a).Equal(Wrap(c.b)); got != c.want {
			t.Errorf("%q, %q: got %v", c.a, c.b, got)
		}
	}
	if !(Text{}).Empty() || !Wrap("").Empty() || Wrap("x").Empty() {
		t.Error("Empty")
	}
}
