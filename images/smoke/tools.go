// SPDX-License-Identifier: MIT

package smoke

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/images"
)

// binaries are the programs of the image by exact name, with the arguments that make them say
// their version; without any, the program only has to be there.
func binaries() [][]string {
	return [][]string{
		{"Xvnc"},
		{"xfwm4"},
		{"xfce4-panel"},
		{"xfdesktop"},
		{"xfsettingsd"},
		{"xfce4-terminal"},
		{"dbus-run-session", "--version"},
		{"xauth"},
		{"xdpyinfo"},
		{"xprop"},
		{"setxkbmap"},
		{"xsetroot"},
		{"xset"},
		{"cua-driver", "--version"},
		{"agent-browser", "--version"},
		{"playwright", "--version"},
		{"hermes-chromium", "--version"},
		{"python3", "--version"},
		{"pip", "--version"},
		{"node", "--version"},
		{"npm", "--version"},
		{"npx"},
		{"gcc", "--version"},
		{"g++", "--version"},
		{"make", "--version"},
		{"git", "--version"},
		{"ssh", "-V"},
		{"jq", "--version"},
		{"rg", "--version"},
		{"fd", "--version"},
		{"tmux", "-V"},
		{"less", "--version"},
		{"nano", "--version"},
		{"vim.tiny"},
		{"zip"},
		{"unzip"},
		{"rsync", "--version"},
		{"tree", "--version"},
		{"ps", "--version"},
		{"htop", "--version"},
		{"file", "--version"},
		{"column", "--version"},
		{"curl", "--version"},
		{"wget", "--version"},
		{"sudo"},
		{"locale"},
	}
}

// wanted are the versions that the image promises, by program and prefix.
func wanted() map[string]string {
	return map[string]string{"python3": "Python 3.13.", "node": "v26."}
}

// binaries checks that each program is there, is no other's alias, and runs.
func (s *run) binaries(ctx context.Context) (string, error) {
	var script strings.Builder
	script.WriteString("cd /tmp; export HOME=/tmp\n")
	for _, argv := range binaries() {
		fmt.Fprintf(&script, "p=$(type -P -- %s) || echo '%s missing'\n", argv[0], argv[0])
		if len(argv) > 1 {
			fmt.Fprintf(&script, "[ -z \"$p\" ] || { v=$(timeout 60 %s 2>&1 </dev/null | grep -m1 . ) && echo \"%s version $v\" || echo '%s broken'; }\n", strings.Join(argv, " "), argv[0], argv[0])
		}
	}
	// These say it only with a display, or not at all.
	for program, pkg := range map[string]string{
		"Xvnc": "tigervnc-standalone-server", "xfwm4": "xfwm4", "xfce4-panel": "xfce4-panel", "xfdesktop": "xfdesktop4",
		"xfsettingsd": "xfce4-settings", "xfce4-terminal": "xfce4-terminal", "sudo": "sudo", "chromium": "chromium",
	} {
		fmt.Fprintf(&script, "v=$(dpkg-query -W -f '${Version}' %s 2>/dev/null) && echo \"%s version $v\"\n", pkg, program)
	}
	script.WriteString("true\n")
	out, err := s.box.Exec(ctx, images.Command{User: deskUser, Argv: []string{"bash", "-c", script.String()}})
	if err != nil {
		return "", err
	}
	var bad []string
	for line := range strings.Lines(out.Stdout) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if version, ok := strings.CutPrefix(rest, "version "); ok {
			s.report.Versions[name] = strings.TrimSpace(version)
		} else {
			bad = append(bad, name+" is "+rest)
		}
	}
	for name, prefix := range wanted() {
		if v := s.report.Versions[name]; v != "" && !strings.HasPrefix(v, prefix) {
			bad = append(bad, fmt.Sprintf("%s is %q, expected %s…", name, v, prefix))
		}
	}
	if strings.Contains(strings.ToLower(s.report.Versions["cua-driver"]), "stand-in") {
		s.report.standIn("cua-driver")
	}
	if bad != nil {
		return "", errors.New(strings.Join(bad, "; "))
	}
	return fmt.Sprintf("%d programs", len(binaries())), nil
}

// confinement checks that the container is as narrow as the gateway makes it: a proof under
// more rights would prove nothing.
func (s *run) confinement(ctx context.Context) (string, error) {
	const script = `
grep -q '^NoNewPrivs:[[:space:]]*1$' /proc/self/status || { echo 'new privileges are possible'; exit 1; }
[ "$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)" = 0000000000000000 ] || { echo 'the user has capabilities'; exit 1; }
bnd=$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status)
[ $((16#$bnd)) = $((1<<0 | 1<<1 | 1<<3 | 1<<6 | 1<<7)) ] || { echo "the capabilities are $bnd"; exit 1; }
[ "$(ls /sys/class/net)" = lo ] || { echo "there is a network: $(ls /sys/class/net)"; exit 1; }
for d in /tmp /var/tmp /run; do grep -q " $d tmpfs " /proc/mounts || { echo "$d is not in memory"; exit 1; }; done
pids=$(cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null || true)
[ "$pids" = 2048 ] || { echo "the limit of threads is '$pids'"; exit 1; }
echo 'five capabilities, no new privileges, no network, 2048 threads, /tmp in memory'`
	return s.sh(ctx, nil, script)
}

// user checks the desktop's user, and what a login over ssh finds in its environment.
func (s *run) user(ctx context.Context) (string, error) {
	const script = `
[ "$(id -u)" = 1000 ] && [ "$(id -un)" = pn ] || { id; exit 1; }
[ -O "$HOME" ] && [ -w "$HOME" ] || { echo "home $HOME is not its own"; exit 1; }
for line in PLAYWRIGHT_BROWSERS_PATH=/opt/playwright XDG_RUNTIME_DIR=/tmp/hermes-runtime; do
  grep -qx "$line" /etc/environment || { echo "/etc/environment lacks $line"; exit 1; }
  n=${line%%=*}; [ "${!n:-}" = "${line#*=}" ] || { echo "$n is '${!n:-}'"; exit 1; }
done
[ ! -s /etc/machine-id ] || { echo '/etc/machine-id is the same in every container'; exit 1; }
[ "$(locale charmap)" = UTF-8 ] || { echo "charmap $(locale charmap)"; exit 1; }
echo "pn, uid 1000, $HOME"`
	detail, err := s.sh(ctx, nil, script)
	if err != nil {
		return "", err
	}
	// no-new-privileges keeps sudo from working in here; its policy can be asked for as root.
	out, err := s.box.Exec(ctx, images.Command{User: "root", Argv: []string{"sudo", "-l", "-U", deskUser}})
	if err == nil && !strings.Contains(out.Stdout, "NOPASSWD: ALL") {
		err = fmt.Errorf("pn may not sudo: %s", strings.TrimSpace(out.Stdout+out.Stderr))
	}
	return detail + ", sudo", err
}

// compilers builds and runs what needs a compiler, Python's headers and Pillow; not in /tmp, where
// nothing may be executed.
func (s *run) compilers(ctx context.Context) (string, error) {
	const script = `
d=$(mktemp -d -p "$HOME"); trap 'rm -rf "$d"' EXIT; cd "$d"
printf '#include <Python.h>\nint main(void) { Py_Initialize(); PyRun_SimpleString("print(6 * 7)"); return Py_FinalizeEx(); }\n' >a.c
printf 'a: a.c\n\tgcc $$(python3-config --includes) a.c -o a $$(python3-config --ldflags --embed)\n' >Makefile
make -s
[ "$(./a)" = 42 ] || { echo 'the program compiled against Python is wrong'; exit 1; }
git init -q repo && git -C repo -c user.name=pn -c user.email=pn@localhost commit -q --allow-empty -m first
printf '#include <string>\n#include <iostream>\nint main() { std::cout << std::string("c++"); }\n' >b.cc
g++ b.cc -o b; [ "$(./b)" = c++ ] || { echo 'the C++ program is wrong'; exit 1; }
python3 -m venv --without-pip venv
[ "$(node -e 'console.log(6 * 7)')" = 42 ]
python3 -c 'import PIL; from PIL import ImageGrab; print("C, C++, make, git, Python.h, venv, node, Pillow", PIL.__version__)'`
	return s.sh(ctx, nil, script)
}
