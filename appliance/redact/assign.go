// SPDX-License-Identifier: MIT

package redact

import "strings"

// assignments hides what stands behind a key for a secret, as in KEY=v, key: v, "key": "v",
// key => v, and Telegram's digits:token, in one scan that looks at every '=' and ':'.
func assignments(s string) string {
	var b strings.Builder
	at := 0
	for i := 0; i < len(s); i++ {
		if s[i] != '=' && s[i] != ':' {
			continue
		}
		from, to, text := assignment(s, i)
		if from < at || to <= from {
			continue
		}
		b.WriteString(s[at:from])
		b.WriteString(text)
		at, i = to, to-1
	}
	if at == 0 {
		return s
	}
	b.WriteString(s[at:])
	return b.String()
}

// assignment looks at the separator at i and returns the range to replace; to = 0 = nothing.
func assignment(s string, i int) (from, to int, text string) {
	start := keyStart(s, i)
	key := s[start:keyEnd(s, i)]
	if key == "" {
		return 0, 0, ""
	}
	if s[i] == ':' && start+len(key) == i {
		if end := telegramEnd(s, key, i); end > 0 {
			return start, end, token(s[start:end])
		}
	}
	maybe := !secretKey(key)
	if maybe && !vagueKey(key) {
		return 0, 0, ""
	}
	from = i + 1
	if s[i] == '=' && from < len(s) && s[from] == '>' {
		from++
	}
	for from < len(s) && (s[from] == ' ' || s[from] == '\t') {
		from++
	}
	to = valueEnd(s, from)
	if to == from || maybe && vague(key, s[from:to]) {
		return 0, 0, ""
	}
	return from, to, value(key, s[from:to])
}

// keyEnd is where the key before the separator at i ends: blanks and a closing quote may
// stand between.
func keyEnd(s string, i int) int {
	for i > 0 && (s[i-1] == ' ' || s[i-1] == '\t') {
		i--
	}
	if i > 0 && (s[i-1] == '"' || s[i-1] == '\'') {
		i--
		if i > 0 && s[i-1] == '\\' {
			i--
		}
	}
	return i
}

func keyStart(s string, i int) int {
	i = keyEnd(s, i)
	for n := 0; i > 0 && n < 100 && (wordByte(s[i-1]) || s[i-1] == '.'); n++ {
		i--
	}
	return i
}

// valueEnd is where the value that starts at i ends.
func valueEnd(s string, i int) int {
	if i >= len(s) {
		return i
	}
	for _, q := range []string{`\"`, `"`, "'"} {
		if !strings.HasPrefix(s[i:], q) {
			continue
		}
		for j := i + len(q); j < len(s) && s[j] != '\n'; j++ {
			if strings.HasPrefix(s[j:], q) {
				return j + len(q)
			}
			if s[j] == '\\' && q == `"` {
				j++
			}
		}
	}
	j := i
	for j < len(s) && strings.IndexByte(" \t\r\n\"',;&{}[]()<>", s[j]) < 0 {
		j++
	}
	return j
}

// secretWord reports whether a key that ends in word holds a secret.
func secretWord(word string) bool {
	switch word {
	case "key", "apikey", "token", "secret", "password", "passwd", "pwd", "passphrase", "credential", "credentials", "secrets", "passwords":
		return true
	}
	for _, end := range []string{"password", "passwd", "passphrase", "sshpass", "apikey", "secretkey", "privatekey", "accesskey", "authtoken", "accesstoken", "refreshtoken", "clientsecret"} {
		if strings.HasSuffix(word, end) {
			return true // PGPASSWORD
		}
	}
	return false
}

// secretKey reports whether a key names a secret: its last part, divided by '_', '-', '.' or
// a capital letter, is a word for one. "tokenizer" and "monkey" are no such keys.
func secretKey(key string) bool {
	last := lastPart(key)
	if secretWord(strings.ToLower(last)) {
		return true
	}
	for j := len(last) - 1; j > 0; j-- {
		if last[j] >= 'A' && last[j] <= 'Z' && last[j-1] >= 'a' && last[j-1] <= 'z' {
			return secretWord(strings.ToLower(last[j:]))
		}
	}
	return false
}

func lastPart(key string) string { return key[strings.LastIndexAny(key, "_-.")+1:] }

// vagueKey reports whether a key may name a secret, as SMTP_PASS and x-custom-auth do; in
// ordinary text such words also stand before what is none (tests_pass: 12).
func vagueKey(key string) bool {
	last := lastPart(key)
	if last == key {
		return false
	}
	switch strings.ToLower(last) {
	case "pass", "pw", "cred", "creds", "auth":
		return true
	}
	return false
}

// vague reports whether the value behind a vague key is no secret: a number, or a word unless
// the key is a variable's.
func vague(key, v string) bool {
	_, inner, _ := unquote(v)
	if strings.Trim(inner, "0123456789.,%") == "" {
		return true
	}
	return key != strings.ToUpper(key) && !strings.ContainsFunc(inner, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// Secret reports whether a setting of this name holds a secret, where nothing but the name
// tells.
func Secret(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "proxy-authorization", "cookie", "set-cookie", "pass", "auth":
		return true
	}
	return secretKey(name) || vagueKey(name)
}

// telegramEnd is where a bot token ends whose number stands before the colon at i; 0 = it is
// none.
func telegramEnd(s, number string, i int) int {
	if len(number) < 6 || len(number) > 12 || strings.Trim(number, "0123456789") != "" {
		return 0
	}
	end := i + 1
	for end < len(s) && wordByte(s[end]) {
		end++
	}
	if end-i-1 < 30 {
		return 0
	}
	return end
}
