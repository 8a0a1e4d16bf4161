// SPDX-License-Identifier: MIT

package files

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// walk is the part that both searches share: the files that find sees, without hidden ones.
// A root with "/." at its end is not hidden itself, whatever its name. What follows the root
// and the name are further conditions.
const walk = `nl='
'
walk() {
  r=$1 n=$2; [ ! -d "$1" ] || r=${1%/}/.
  shift 2
  find "$r" \( -name '.?*' -o -name node_modules -o -name __pycache__ -o -path /./proc -o -path /./sys -o -path /./dev \) -prune -o -type f ${n:+-name "$n"} "$@" -print0
}
`

// listScript lists files. Without ripgrep, ignore files do not count.
const listScript = walk + `main() {
  still "$1" || return 7
  if command -v rg >/dev/null 2>&1; then
    rg --files -0 --no-messages --no-require-git -g '!node_modules' -g '!__pycache__' -- "$1" | head -c "$2"
  else walk "$1" '' | head -c "$2"; fi
}`

// stampsScript says when files were changed, in their order; the names come on stdin.
const stampsScript = `main() {
  if stat -c %Y / >/dev/null 2>&1; then xargs -0 stat -c %Y -- ; else xargs -0 stat -f %m -- ; fi
}`

// grepScript looks into files. For each with matches: its path, NUL, lines of "N:text" or
// "N-text", NUL; ripgrep writes "path NUL N:text" lines instead.
const grepScript = walk + `main() {
  still "$1" || return 7
  root=$1 P=$2 C=$3 most=$4 W=$5 find=$7; [ "$C" != 0 ] || C=
  if command -v rg >/dev/null 2>&1; then
    printf '' | rg -q -e "$P" -; [ $? -lt 2 ] || return 13
    rg --crlf -0 -n --no-heading --with-filename --color never --no-messages --sort path --no-require-git -g '!node_modules' -g '!__pycache__' ${6:+-g "$6"} ${C:+-C "$C"} -e "$P" -- "$1" | cut -b "1-$8" | head -c "$4"
    say '' rg; return 0
  fi
  if printf a | grep -I -P a >/dev/null 2>&1; then E='-I -P'; elif printf a | grep -I a >/dev/null 2>&1; then E='-I -E'; else E=-E; fi
  P=$9; shift; E="$E $9"
  printf '' | grep $E -q -e "$P"; [ $? -lt 2 ] || return 13
  export P C W E one
  one='for f do
    case $E in *-I*) ;; *) [ "$(head -c 8192 < "$f" | tr -dc "\\000" | wc -c)" -eq 0 ] || continue ;; esac
    printf "%s\\0" "$f"; grep $E -n ${C:+-C "$C"} -e "$P" -- "$f" | tr -d "\\000" | cut -b "1-$W"; printf "\\0"
  done'
  { walk "$root" "$find" ! -path "*$nl*" | xargs -0 grep $E -l -e "$P" -- /dev/null | tr '\n' '\000' | xargs -0 sh -c "$one" sh
    walk "$root" "$find" -path "*$nl*" | xargs -0 -n 1 sh -c '[ $# = 0 ] || ! grep $E -q -e "$P" -- "$1" || sh -c "$one" sh "$1"' sh
  } | head -c "$most"
  say '' grep
}`

// answerBytes bounds what one search brings over.
const answerBytes = 8 << 20

// Find implements [Host].
func (s *Shell) Find(ctx context.Context, root Place, q Query) (Found, error) {
	if q.Pattern == "" {
		return s.list(ctx, root, q)
	}
	// What the backend's tools understand of the glob is left to them; named does the rest.
	var forRipgrep, forFind string
	if !strings.ContainsAny(q.Names, "/!") {
		if forRipgrep = q.Names; !strings.ContainsAny(q.Names, `{\`) {
			forFind = q.Names
		}
	}
	width := q.Width + 12
	forGrep, flags := grepPattern(q.Pattern)
	payload, code, err := s.run(ctx, grepScript, nil, root.Path, q.Pattern, strconv.Itoa(q.Context), strconv.Itoa(answerBytes),
		strconv.Itoa(width), forRipgrep, forFind, strconv.Itoa(width+4096), forGrep, flags)
	if err != nil {
		return Found{}, err
	}
	if code != 0 {
		return Found{}, failure(root.Path, code)
	}
	more := len(payload) >= answerBytes
	var found Found
	switch {
	case bytes.HasSuffix(payload, []byte("\x00rg\x00")):
		found = parseRipgrep(bytes.TrimSuffix(payload, []byte("\x00rg\x00")), q.Max)
	case bytes.HasSuffix(payload, []byte("\x00grep\x00")):
		found = parseGrep(bytes.TrimSuffix(payload, []byte("\x00grep\x00")), q.Max)
	default:
		return Found{}, fmt.Errorf("%w: its answer is cut", ErrUnavailable)
	}
	found.More = found.More || more
	for i := range found.Files {
		found.Files[i].Path = undot(root.Path, found.Files[i].Path)
	}
	found.Files = slices.DeleteFunc(found.Files, func(x FoundFile) bool { return !q.named(below(root.Path, x.Path)) })
	slices.SortStableFunc(found.Files, func(a, b FoundFile) int { return strings.Compare(a.Path, b.Path) })
	return found, nil
}

// undot takes out the "/." that walk puts behind the root.
func undot(root, p string) string {
	root = strings.TrimSuffix(root, "/")
	if rest, ok := strings.CutPrefix(p, root+"/./"); ok {
		return root + "/" + rest
	}
	return p
}

// list finds files by name.
func (s *Shell) list(ctx context.Context, root Place, q Query) (Found, error) {
	payload, code, err := s.run(ctx, listScript, nil, root.Path, strconv.Itoa(answerBytes))
	if err != nil {
		return Found{}, err
	}
	if code != 0 {
		return Found{}, failure(root.Path, code)
	}
	out := Found{More: len(payload) >= answerBytes}
	var names []string
	for p := range strings.SplitSeq(string(payload), "\x00") {
		if p = undot(root.Path, p); p == "" || !q.named(below(root.Path, p)) {
			continue
		}
		if len(names) >= q.Max {
			out.More = true
			break
		}
		names = append(names, p)
	}
	when := s.changed(ctx, names)
	slices.Sort(names)
	slices.SortStableFunc(names, func(a, b string) int { return int(when[b] - when[a]) })
	for _, p := range names {
		out.Files = append(out.Files, FoundFile{Path: p})
	}
	return out, nil
}

// changed says when files were changed; nothing where the backend cannot tell.
func (s *Shell) changed(ctx context.Context, names []string) map[string]int64 {
	if len(names) == 0 {
		return nil
	}
	payload, code, err := s.run(ctx, stampsScript, []byte(strings.Join(names, "\x00")+"\x00"))
	times := strings.Fields(string(payload))
	if err != nil || code != 0 || len(times) != len(names) {
		return nil
	}
	out := make(map[string]int64, len(names))
	for i, t := range times {
		n, err := strconv.ParseInt(t, 10, 64)
		if err != nil {
			return nil
		}
		out[names[i]] = n
	}
	return out
}

// grepPattern writes a pattern so that grep understands it, in POSIX's syntax or Perl's, and
// returns it with an option for grep. The end of a line may have a CR before it.
func grepPattern(p string) (pattern, option string) {
	if rest, ok := strings.CutPrefix(p, "(?i)"); ok {
		p, option = rest, "-i"
	}
	var b strings.Builder
	class := false
	for i := 0; i < len(p); i++ {
		switch {
		case p[i] == '\\' && i+1 < len(p):
			i++
			b.WriteString(map[string]string{"d": "[0-9]", "D": "[^0-9]"}[pick(!class, p[i:i+1])])
			if c := p[i]; class && c == 'd' {
				b.WriteString("0-9")
			} else if class || c != 'd' && c != 'D' {
				b.WriteString(p[i-1 : i+1])
			}
		case class:
			class = p[i] != ']'
			b.WriteByte(p[i])
		case p[i] == '[':
			class = true
			b.WriteByte('[')
			for i+1 < len(p) && (p[i+1] == '^' || p[i+1] == ']') { // a bracket right at the start is itself
				i++
				b.WriteByte(p[i])
			}
		case p[i] == '$':
			b.WriteString("\r?$")
		case strings.HasPrefix(p[i:], "(?:"):
			b.WriteByte('(')
			i += 2
		default:
			b.WriteByte(p[i])
		}
	}
	return b.String(), option
}

func pick(ok bool, s string) string {
	if ok {
		return s
	}
	return ""
}

// parseRipgrep reads "path NUL N:text" and "path NUL N-text" lines; "--" separates groups.
func parseRipgrep(payload []byte, limit int) Found {
	var out Found
	count := 0
	for len(payload) > 0 {
		i := bytes.IndexByte(payload, 0)
		if i < 0 {
			break
		}
		name := string(payload[:i])
		name = strings.TrimPrefix(name, "--\n")
		line, rest, _ := bytes.Cut(payload[i+1:], []byte("\n"))
		payload = rest
		l, ok := parseLine(line)
		if !ok {
			continue
		}
		if n := len(out.Files); n == 0 || out.Files[n-1].Path != name {
			out.Files = append(out.Files, FoundFile{Path: name})
		}
		count = out.Files[len(out.Files)-1].add(l, count)
		if out.More = count >= limit; out.More {
			break
		}
	}
	return out
}

// parseGrep reads "path NUL lines NUL".
func parseGrep(payload []byte, limit int) Found {
	var out Found
	count := 0
	parts := bytes.Split(payload, []byte{0})
	for i := 0; i+1 < len(parts); i += 2 {
		x := FoundFile{Path: string(parts[i])}
		for line := range bytes.Lines(parts[i+1]) {
			if l, ok := parseLine(bytes.TrimSuffix(line, []byte("\n"))); ok {
				count = x.add(l, count)
			}
		}
		if x.Count > 0 {
			out.Files = append(out.Files, x)
		}
		if out.More = count >= limit; out.More {
			break
		}
	}
	return out
}

func (x *FoundFile) add(l FoundLine, count int) int {
	x.Lines = append(x.Lines, l)
	if l.Fits {
		x.Count++
		count++
	}
	return count
}

// parseLine reads "N:text", or "N-text" for context.
func parseLine(line []byte) (FoundLine, bool) {
	i := 0
	for i < len(line) && line[i] >= '0' && line[i] <= '9' {
		i++
	}
	if i == 0 || i == len(line) || line[i] != ':' && line[i] != '-' {
		return FoundLine{}, false
	}
	n, err := strconv.Atoi(string(line[:i]))
	return FoundLine{n, strings.TrimSuffix(string(line[i+1:]), "\r"), line[i] == ':'}, err == nil
}
