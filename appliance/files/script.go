// SPDX-License-Identifier: MIT

package files

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// The scripts run in any POSIX shell (dash, busybox, bash). They are given to a fresh sh, so
// that aliases and functions of the user's shell do not get in the way, with paths as
// arguments, so that no name is ever code. What they say goes through base64 between two
// fences: a login shell's greetings and a backend that decodes text cannot change it.

// Codes that a script's main returns.
const (
	codeDangling  = 4
	codeNotDir    = 5
	codeNoHome    = 6
	codeMoved     = 7
	codeIO        = 8
	codeDiffers   = 9
	codeIrregular = 10
	codeTooLarge  = 11
	codeNoTool    = 12
	codePattern   = 13
)

const prelude = `LC_ALL=C; export LC_ALL; unset CDPATH GREP_OPTIONS GREP_COLORS RIPGREP_CONFIG_PATH POSIXLY_CORRECT
say() { for _a do printf '%s\0' "$_a"; done; }
enc() { if command -v base64 >/dev/null 2>&1; then printf b; base64; else printf x; od -An -v -tx1; fi; }
abs() { R=; _r=$1/
  while [ -n "$_r" ]; do _c=${_r%%/*}; _r=${_r#*/}
    case $_c in ''|.) ;; ..) R=${R%/*} ;; *) R=$R/$_c ;; esac
  done
  [ -n "$R" ] || R=/; }
follow() { R=$( (readlink -f -- "$1" || realpath -- "$1") && printf x) || return 12; R=${R%?x}; [ -n "$R" ] || return 12; }
real() { _t=; _p=$1
  while [ ! -e "$_p" ]; do
    [ ! -L "$_p" ] || return 4
    _t=/${_p##*/}$_t; _p=${_p%/*}; [ -n "$_p" ] || _p=/
  done
  follow "$_p" || return $?
  [ -z "$_t" ] || [ -d "$R" ] || return 5
  [ "$R" != / ] || R=
  R=$R$_t; [ -n "$R" ] || R=/; }
still() { real "$1" && [ "$R" = "$1" ] || return 7; }
meta() { M=$(stat -c '%s %a %i %u:%g %h %y' -- "$1" 2>/dev/null || stat -f '%z %Lp %i %u:%g %l %Fm' -- "$1") || return 8
  set -f; set -- $M; set +f
  SIZE=$1 MODE=$2 OWNER=$4 LINKS=$5; _i=$3; shift 5; STAMP=$_i.$SIZE.$*; }
sum() { S=; V=1
  if command -v sha256sum >/dev/null 2>&1; then S=$(sha256sum < "$1")
  elif command -v shasum >/dev/null 2>&1; then S=$(shasum -a 256 < "$1")
  elif command -v openssl >/dev/null 2>&1; then S=$(openssl dgst -sha256 -r < "$1")
  else S=$(wc -c < "$1"); S=$((S)); V=0; fi
  S=${S%% *}; }
`

const epilogue = `
fence=$1; shift
printf '\n%s\n' "$fence"; { main "$@"; printf '\0%s' $?; } 2>/dev/null | enc; printf '\n%s\n' "$fence"
`

const locateScript = `main() {
  D=$(pwd -P && printf x) || return 8; D=${D%?x}
  case $1 in
  '~'|'~/'*) [ -n "$HOME" ] || return 6; p=$HOME${1#'~'} ;;
  '~'*) if [ "$2" = user ]; then u=${1%%/*}; eval "h=$u"; case $h in /*) p=$h${1#"$u"} ;; *) p=$D/$1 ;; esac; else p=$D/$1; fi ;;
  /*) p=$1 ;;
  *) p=$D/$1 ;;
  esac
  abs "$p"; A=$R
  real "$A"; c=$?; [ $c = 0 ] || { say "$A"; return $c; }
  P=$R; SIZE=0 MODE=0 STAMP=
  if [ -f "$P" ]; then k=f; meta "$P" || return $?
  elif [ -d "$P" ]; then k=d; meta "$P" || return $?
  elif [ -e "$P" ]; then k=o; else k=m; fi
  say "$k" "$P" "$A" "$D" "$HOME" "$SIZE" "$MODE" "$STAMP"
}`

// readScript sends a file. It opens it, and looks again: what is read is what was judged.
const readScript = `main() {
  still "$1" || return 7
  [ -f "$1" ] || return 10
  [ -r "$1" ] || return 8
  exec 3<"$1" || return 8
  still "$1" || return 7
  a=$(stat -Lc %d:%i /proc/self/fd/3 2>/dev/null); b=$(stat -c %d:%i -- "$1" 2>/dev/null)
  [ -z "$a" ] || [ "$a" = "$b" ] || return 7
  n=$(wc -c < "$1"); [ "$n" -le "$2" ] || { say "$((n))"; return 11; }
  head -c "$(($2+1))" <&3 || return 8
}`

// pageScript sends size, number of newlines, whether the last byte is one, the start of the
// file and the lines of a page.
const pageScript = `main() {
  still "$1" || return 7
  [ -f "$1" ] || return 10
  [ -r "$1" ] || return 8
  exec 3<"$1" || return 8
  still "$1" || return 7
  n=$(wc -c < "$1") && l=$(wc -l < "$1") && e=$(tail -c 1 < "$1" | wc -l) || return 8
  s=$(head -c "$5" <&3 | enc); exec 3<&-
  say "$((n))" "$((l))" "$((e))" "$s"
  { if [ "$2" -gt 1 ]; then tail -n "+$2" < "$1"; else cat < "$1"; fi; } | head -n "$(($3-$2+1))" | cut -b "1-$4" | head -c "$6"
}`

const writeScript = `main() {
  t=$1 kind=$2 stamp=$3 want=$4 tmp=$5 mode=$6 size=$7
  still "$t" || return 7
  if [ "$kind" = new ]; then [ ! -e "$t" ] && [ ! -L "$t" ] || return 7
  else [ -f "$t" ] && meta "$t" || return 7; [ -z "$stamp" ] || [ "$STAMP" = "$stamp" ] || return 7; old=$MODE:$OWNER; links=$LINKS; fi
  d=${t%/*}; [ -n "$d" ] || d=/
  mkdir -p -- "$d" || return 8
  still "$d" || return 7
  tmp=${d%/}/$tmp
  trap 'rm -f -- "$tmp"' 0; trap 'exit 1' 1 2 15
  (set -C; : > "$tmp") || return 8
  cat >| "$tmp" || return 8
  sum "$tmp"; [ $V = 1 ] || want=$size; [ "$S" = "$want" ] || return 9
  place=
  if [ "$kind" = old ]; then
    cp --attributes-only --preserve=all -- "$t" "$tmp" && touch -- "$tmp" || { chown "$OWNER" "$tmp"; chmod "$MODE" "$tmp"; }
    meta "$tmp" || return 8
    [ "$MODE:$OWNER" = "$old" ] && [ "$links" = 1 ] || place=in
  elif [ "$mode" != 0 ]; then chmod "$mode" "$tmp" || return 8; fi
  still "$t" || return 7
  [ ! -d "$t" ] || return 7
  [ -n "$place" ] || mv -f -- "$tmp" "$t" || { [ "$kind" = old ] && place=in || return 8; }
  [ -z "$place" ] || cat < "$tmp" >| "$t" || return 8
  sum "$t"; [ $V = 1 ] || want=$size; [ "$S" = "$want" ] || return 9
  meta "$t" || return 8
  say "$V" "$SIZE" "$MODE" "$STAMP"
}`

const removeScript = `main() {
  still "$1" || return 7
  [ -f "$1" ] && meta "$1" || return 7
  [ -z "$2" ] || [ "$STAMP" = "$2" ] || return 7
  rm -f -- "$1" || return 8
  [ ! -e "$1" ] || return 8
}`

const namesScript = `main() {
  cd -- "$1" || return 8
  for f in * .*; do [ "$f" = . ] || [ "$f" = .. ] || [ ! -e "$f" ] && [ ! -L "$f" ] || say "$f"; done
}`

// keepScript writes a file that only its user can read, into a directory of its own.
const keepScript = `main() {
  umask 077
  d=${TMPDIR:-/tmp}/hermes-results
  case $d in /*) ;; *) d=/tmp/hermes-results ;; esac
  mkdir -p -- "$d" && [ ! -L "$d" ] && [ -O "$d" ] && chmod 700 "$d" || return 8
  f=$d/$1; rm -f -- "$f"
  (set -C; : > "$f") || return 8
  cat >| "$f" || { rm -f -- "$f"; return 8; }
  n=$(wc -c < "$f"); [ "$n" -eq "$2" ] || { rm -f -- "$f"; return 9; }
  say "$f"
}`

// quote makes a word of a shell of any text without NUL.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// command builds what the runner runs. With stdin it reads it all; otherwise it has none.
func command(body, fence string, stdin bool, args ...string) string {
	var b strings.Builder
	b.WriteString("sh -c " + quote(prelude+body+epilogue) + " hermes-files " + quote(fence))
	for _, a := range args {
		b.WriteString(" " + quote(a))
	}
	if !stdin {
		b.WriteString(" </dev/null")
	}
	return b.String()
}

// answer takes the payload and the code of main out of what a backend printed.
func answer(out []byte, fence string) (payload []byte, code int, err error) {
	mark := []byte(fence)
	from := bytes.Index(out, mark)
	to := bytes.LastIndex(out, mark)
	if from < 0 || to <= from {
		return nil, 0, fmt.Errorf("%w: it did not run what it was given", ErrUnavailable)
	}
	data, err := decodePayload(out[from+len(mark) : to])
	if err != nil {
		return nil, 0, fmt.Errorf("%w: its answer is damaged: %w", ErrUnavailable, err)
	}
	i := bytes.LastIndexByte(data, 0)
	if i < 0 {
		return nil, 0, fmt.Errorf("%w: its answer is cut", ErrUnavailable)
	}
	code, err = strconv.Atoi(string(data[i+1:]))
	if err != nil {
		return nil, 0, fmt.Errorf("%w: its answer is cut", ErrUnavailable)
	}
	return data[:i], code, nil
}

// decodePayload undoes the script's enc.
func decodePayload(text []byte) ([]byte, error) {
	clean := bytes.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
	if len(clean) == 0 {
		return nil, fmt.Errorf("nothing between the fences")
	}
	kind, body := clean[0], clean[1:]
	if kind == 'x' {
		out := make([]byte, hex.DecodedLen(len(body)))
		_, err := hex.Decode(out, body)
		return out, err
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(body)))
	n, err := base64.StdEncoding.Decode(out, body)
	return out[:n], err
}

// fields splits what say printed.
func fields(payload []byte) []string {
	parts := strings.Split(string(payload), "\x00")
	return parts[:len(parts)-1]
}
