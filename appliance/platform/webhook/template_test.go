// SPDX-License-Identifier: MIT

package webhook

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	p := mustJSON(t, `{"z":1,"a":{"b":"text","n":null,"t":true,"l":[1,{"x":"y"}],"e":{},"el":[]},"big":12345678901234567890,"f":1.50,"s":"{a.b} {__raw__}",
		"html":"<b> \u0026 \"q\"","__raw__":"mine","event_type":"mine","dotted.key":"no","0":"zero"}`)
	for template, want := range map[string]string{
		"plain":              "plain",
		"{a.b}":              "text",
		"x{z}y{z}":           "x1y1",
		"{big} {f}":          "12345678901234567890 1.50",
		"{a.n} {a.t}":        "null true",
		"{gone} {a.gone}":    "{gone} {a.gone}",
		"{a.b.c}":            "{a.b.c}",
		"{dotted.key}":       "{dotted.key}",
		"{s}":                "{a.b} {__raw__}", // what a payload says is no template
		"{html}":             `<b> & "q"`,
		"{event_type}":       "push",
		"{a.l.1.x}":          "y",
		"{a.l.2} {a.l.-1}":   "{a.l.2} {a.l.-1}",
		"{a.l}":              "[\n  1,\n  {\n    \"x\": \"y\"\n  }\n]",
		"{a.e}{a.el}":        "{}[]",
		"{0}":                "zero",
		"{} { a.b } {a-b}":   "{} { a.b } {a-b}",
		"{{a.b}}":            "{text}",
		"${HOME} $(id) {a.b": "${HOME} $(id) {a.b",
		"{.} {..} {a.}":      "{.} {..} {a.}",
	} {
		if got := render(template, p, "push", "r"); got != want {
			t.Errorf("%s: got %q, want %q", template, got, want)
		}
	}
	raw := render("{__raw__}", p, "push", "r")
	if !strings.HasPrefix(raw, "{\n  \"z\": 1,\n  \"a\": {\n    \"b\": \"text\"") {
		t.Errorf("the sender's order is lost: %s", raw)
	}
	if got := render("", p, "push", "r"); got != "Webhook event 'push' on route 'r':\n\n```json\n"+raw+"\n```" {
		t.Errorf("without a template: %s", got)
	}
}

// TestCuts: what is long is cut by characters, wherever they end.
func TestCuts(t *testing.T) {
	t.Parallel()
	long := `{"a":{"list":["` + strings.Repeat("ü☃", 3000) + `"]},"text":"` + strings.Repeat("x", 9000) + `"}`
	p := mustJSON(t, long)
	for template, want := range map[string]int{"{__raw__}": mostRaw, "{a}": mostNested, "{a.list}": mostNested, "{text}": 9000} {
		got := render(template, p, "", "")
		if n := utf8.RuneCountInString(got); n != want || !utf8.ValidString(got) {
			t.Errorf("%s: %d characters, want %d; valid %v", template, n, want, utf8.ValidString(got))
		}
	}
}

// TestIndentIsBounded: a small payload that would be large when it is laid out.
//
//nolint:paralleltest // allocations are counted
func TestIndentIsBounded(t *testing.T) {
	deep := strings.Repeat("[", 99) + strings.Repeat("1,", 200_000) + "1" + strings.Repeat("]", 99)
	p := mustJSON(t, deep)
	if got := render("{__raw__}", p, "", ""); len(got) != mostRaw {
		t.Errorf("%d", len(got))
	}
	if n := testing.AllocsPerRun(1, func() { indent(p.raw, mostRaw) }); n > 40 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzTemplate: any template on any payload ends, is valid text, and leaves what is not
// replaced as it was.
func FuzzTemplate(f *testing.F) {
	for _, s := range [][2]string{
		{"{a.b} {__raw__}", `{"a":{"b":[1,{"c":null}]}}`},
		{"{a.0.0}", `{"a":[[["\u0000\\\"{}[]"]]]}`},
		{"{{{a}}}", `{"a":"{a}"}`},
		{"", `[]`},
		{"{a}", "{\"a\":\"\xff\"}"},
		{"{a}", "{\"a\" : { \"b\" : [ ] , \"c\":[ 1 ]}}"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, template, body string) {
		p, err := parseJSON([]byte(body))
		if err != nil {
			return
		}
		got := render(template, p, "e", "r")
		if !placeholder.MatchString(template) && template != "" && got != template {
			t.Errorf("changed without a placeholder: %q", got)
		}
		if utf8.ValidString(template) && !utf8.ValidString(got) {
			t.Errorf("invalid text: %q", got)
		}
		// Laid out without a bound it is the same JSON.
		laid := indent(p.raw, 1<<20)
		if len(body) < 2000 {
			var want, have any
			if json.Unmarshal([]byte(strings.ToValidUTF8(body, "\ufffd")), &want) != nil || json.Unmarshal([]byte(laid), &have) != nil {
				t.Fatalf("%q laid out as %q is no JSON", body, laid)
			}
			a, _ := json.Marshal(want)
			b, _ := json.Marshal(have)
			if utf8.ValidString(body) && string(a) != string(b) {
				t.Errorf("%s became %s", a, b)
			}
		}
		if n := utf8.RuneCountInString(indent(p.raw, 50)); n > 50 {
			t.Errorf("%d characters", n)
		}
	})
}
