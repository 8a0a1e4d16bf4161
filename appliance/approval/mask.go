// SPDX-License-Identifier: MIT

package approval

import (
	"fmt"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	masked   = "***"
	maxShown = 8 << 10
)

// Mask returns a command as it may be shown and logged: values of variables and options with
// secret-like names, header values, passwords in URLs and tokens of known vendors are
// replaced. It never covers what the shell would run: expansions and operators stay visible.
// What is very long is cut.
func Mask(command string) (shown string) {
	if len(command) > maxCommand || nesting(command) > maxNesting {
		return maskText(command, nil)
	}
	defer func() { // as in guarded
		if recover() != nil {
			shown = maskText(command, nil)
		}
	}()
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return maskText(command, nil)
	}
	return maskText(command, f.Stmts)
}

// maskText masks a command whose tree, if there is one, has the same offsets.
func maskText(command string, tree []*syntax.Stmt) string {
	rest := ""
	if len(command) > maxShown {
		rest = fmt.Sprintf(" … (%d more bytes)", len(command)-maxShown)
		command, tree = strings.ToValidUTF8(command[:maxShown], ""), cutTree(tree)
	}
	var b strings.Builder
	at := 0
	for _, s := range tree {
		syntax.Walk(s, func(n syntax.Node) bool {
			for _, e := range secrets(n) {
				if e.from >= at && e.to <= len(command) {
					b.WriteString(command[at:e.from] + e.text)
					at = e.to
				}
			}
			return true
		})
	}
	b.WriteString(command[at:])
	text := maskHeader.ReplaceAllString(b.String(), "${1}"+masked)
	text = maskAssign.ReplaceAllString(text, "${1}"+masked)
	text = maskOption.ReplaceAllString(text, "${1}"+masked)
	text = maskUser.ReplaceAllString(text, "${1}"+masked)
	text = maskURL.ReplaceAllString(text, "${1}"+masked+"@")
	return maskToken.ReplaceAllString(text, masked) + rest
}

// cutTree keeps the statements that begin in what is shown.
func cutTree(tree []*syntax.Stmt) []*syntax.Stmt {
	for i, s := range tree {
		if s.Pos().Offset() >= maxShown {
			return tree[:i]
		}
	}
	return tree
}

// edit replaces a part of a command.
type edit struct {
	from, to int
	text     string
}

// secrets finds literal words that are secrets as a whole, blanks and quotes included.
func secrets(n syntax.Node) []edit {
	switch n := n.(type) {
	case *syntax.Assign:
		if n.Name != nil && n.Value != nil && secretVariable.MatchString(n.Name.Value) {
			if _, ok := literal(n.Value); ok {
				from, to := span(n.Value)
				return []edit{{from, to, masked}}
			}
		}
	case *syntax.CallExpr:
		return secretArgs(n.Args)
	}
	return nil
}

func secretArgs(args []*syntax.Word) []edit {
	var out []edit
	before := ""
	for _, w := range args {
		text, ok := literal(w)
		if !ok {
			before = ""
			continue
		}
		from, to := span(w)
		switch header := before == "-H" || before == "--header" || before == "--proxy-header"; {
		case header && secretHeader.MatchString(text):
			name, _, _ := strings.Cut(text, ":")
			out = append(out, edit{from, to, "'" + name + ": " + masked + "'"})
		case secretOption.MatchString(before) && !strings.HasPrefix(text, "-"):
			out = append(out, edit{from, to, masked})
		}
		before = text
	}
	return out
}

const (
	secretName = `[A-Za-z0-9_]*(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|APIKEY|API_KEY|ACCESS_KEY|PRIVATE_KEY|_KEY|_PASS|_PW|_DSN|_AUTH|PGPASS|MYSQL_PWD)S?(?:_[A-Za-z0-9_]*|[0-9]*)`
	secretFlag = `--?(?:password|passwd|pass|token|secret|api-?key|access-?key|secret-?key|auth|bearer)`
	headerName = `(?:proxy-)?authorization|x-[a-z-]*(?:key|token|secret|auth)|api-key|private-token|cookie|set-cookie`
	// plain ends before anything that means something to a shell.
	plain = "[^\\s;&|<>()'\"$`\\\\]+"
)

var (
	secretVariable = regexp.MustCompile(`(?i)^` + secretName + `$`)
	secretOption   = regexp.MustCompile(`(?i)^` + secretFlag + `$`)
	secretHeader   = regexp.MustCompile(`(?i)^\s*(` + headerName + `)\s*:`)

	maskHeader = regexp.MustCompile(`(?i)(\b(?:` + headerName + `)\s*[:=]\s*(?:(?:bearer|basic|token|digest|apikey)\s+)?)` + plain)
	maskAssign = regexp.MustCompile(`(?i)(\b` + secretName + `\+?=)` + plain)
	maskOption = regexp.MustCompile(`(?i)(\s` + secretFlag + `(?:=|\s+))` + plain)
	maskUser   = regexp.MustCompile(`((?:^|\s)(?:-u|--user|--proxy-user)(?:=|\s*)['"]?[^\s:;&|<>()'"$]+:)` + plain)
	maskURL    = regexp.MustCompile("(://[^\\s/@:'\"$`]*:)[^\\s/@;&|<>()'\"$`]+@")
	maskToken  = regexp.MustCompile(`\b(?:sk-|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|xox[abprs]-|xapp-|AIza|AKIA|sk_live_|sk_test_|rk_live_|hf_|npm_|pypi-|glpat-|xai-|gsk_|eyJ)[A-Za-z0-9_./+=-]{8,}`)
)
