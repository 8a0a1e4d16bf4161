// SPDX-License-Identifier: MIT

package approval

import (
	"os"
	"strings"
	"testing"
)

// attacks are ways around the rules, by the finding that each must have; with ! in front a
// person must decide.
func attacks() map[string][]string {
	return map[string][]string{
		"floor.wipe": {
			`perf stat -e cycles rm -rf /`,
			`numactl -N 0 rm -rf /`,
			`cgexec -g cpu:x rm -rf /`,
			`faketime '2020-01-01' rm -rf /`,
			`bwrap --bind / / rm -rf /`,
			`ls | entr rm -rf /`,
			`capsh -- -c 'rm -rf /'`,
			`csh -c 'rm -rf /'`,
			`nu -c 'rm -rf /'`,
			`bash --init-file <(echo 'rm -rf /') -i`,
			`sudo -k rm -rf /`,
			`sudo -D / rm -rf etc`,
			`env --chdir=/ rm -rf etc`,
			`env -u X -C / rm -rf *`,
			`parallel 'rm -rf {}' ::: /`,
			`parallel ::: 'rm -rf /'`,
			`declare -n R=D; D=/; rm -rf $R`,
			`git config core.pager 'rm -rf /'`,
			`git -c core.editor='rm -rf /' commit`,
			`git bisect run sh -c 'rm -rf /'`,
			`git difftool -x 'rm -rf /'`,
			`git grep -O'rm -rf /' x`,
			`git fetch --upload-pack 'rm -rf /' x`,
			`git clone -c core.fsmonitor='rm -rf /' x`,
			`GIT_ASKPASS='rm -rf /' git fetch`,
			`PS4='$(rm -rf /)' bash -xc ls`,
			`tar -I 'rm -rf /' -cf x .`,
			`zip x y -T -TT 'rm -rf /'`,
			`man -P 'rm -rf /' ls`,
			`less +'!rm -rf /' f`,
			`sort --compress-program='rm -rf /' f`,
			`split --filter='rm -rf /' f`,
			`mapfile -C 'rm -rf /' -c 1 A`,
			`make SHELL='rm -rf /'`,
			`gdb -batch -ex 'shell rm -rf /'`,
			`sqlite3 x.db '.shell rm -rf /'`,
			`sqlite3 x.db <<< '.system rm -rf /'`,
			`psql -c '\! rm -rf /'`,
			`mysql -e 'system rm -rf /'`,
			`tee >(sh) <<< 'rm -rf /'`,
			`echo 'rm -rf /' | tee >(sh)`,
			`echo 'rm -rf /' > >(sh)`,
			`btrfs subvolume delete /`,
		},
		"floor.disk": {
			`dcfldd if=x of=/dev/sda`,
			`dc3dd wipe=/dev/sda`,
			`ddrescue x /dev/sda`,
			`badblocks -w /dev/sda`,
		},
		"floor.shutdown": {
			`systemctl start reboot.target`,
			`loginctl poweroff`,
			`sudo -k halt`,
			`busctl call org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager Reboot b true`,
			`dbus-send --system --dest=org.freedesktop.login1 /x org.freedesktop.login1.Manager.PowerOff boolean:true`,
		},
		"floor.gateway": {
			`busctl call org.freedesktop.systemd1 /x org.freedesktop.systemd1.Manager StopUnit ss bot.service replace`,
			`gdbus call --session --dest org.freedesktop.systemd1 --object-path /x --method org.freedesktop.systemd1.Manager.RestartUnit 'bot.service' replace`,
			`dbus-send --dest=org.freedesktop.systemd1 /x org.freedesktop.systemd1.Manager.KillUnit string:bot.service string:all int32:9`,
			`kill -9 $(< ~/.hermes/gateway.pid)`,
			`read P < ~/.hermes/gateway.pid; kill $P`,
			`xargs kill < ~/.hermes/gateway.pid`,
			`kill $(jq .pid ~/.hermes/gateway_state.json)`,
			`kill -9 $(pgrep -f 'gateway run')`,
			`docker rm -f hermes-gateway`,
			`docker stop hermes`,
		},
		"!floor.gateway": {
			`kill -9 $(ps aux | grep '[g]ateway run' | awk '{print $2}')`,
			`kill $(jq -r .pid < ~/.hermes/gateway_state.json | head -1)`,
			`nc -U ~/.hermes/gateway.sock`,
			`socat - UNIX-CONNECT:/home/ann/.hermes/gateway.sock`,
		},
	}
}

// detours are ways around what only needs a person's word.
func detours() map[string][]string {
	return map[string][]string{
		"write.startup": {
			`echo x > .git/hooks/pre-commit`,
			`cp hook .git/hooks/`,
			`ln -s ../../x .git/hooks/post-checkout`,
			`printf x >> .git/modules/sub/hooks/pre-push`,
			`echo x >> ~/.pam_environment`,
		},
		"interp.inline": {
			`python -X dev -c 'x'`,
			`python -W ignore -c 'x'`,
			`node -r ./a -e 'x'`,
			`perl -I lib -e 'x'`,
			`ipython -c x`,
			`R -e 'x'`,
			`expect -c 'spawn x'`,
			`pwsh -Command 'x'`,
			`make --eval='$(shell x)'`,
			`awk '@load "x"'`,
			`awk '{ print | "sh" }'`,
		},
		"interp.stdin": {
			`make -f - <<< 'all:; x'`,
			`make -f <(cat x)`,
		},
		"exec.option": {
			`scp -o ProxyCommand='x' a b:`,
			`git --exec-path=/tmp/x status`,
			`enable -f ./x.so x`,
			`sed 's/x/y \/z/e' f`,
		},
		"exec.env": {
			`NODE_OPTIONS='--require ./x' node y`,
			`RUBYOPT=-r./x ruby y`,
			`GIT_CONFIG_COUNT=1 git log`,
		},
		"shell.pipe": {
			`echo x | tee >(sh -s) | cat >(bash)`,
			`make > >(sh)`,
		},
		"container.stop": {
			`docker rm -f db`,
		},
		"container.host": {
			`docker run --device /dev/sda x`,
			`docker run --cap-add SYS_ADMIN x`,
			`docker run --pid host x`,
			`docker run -v ~/.ssh:/x y`,
			`docker run -v ~/.hermes:/x y`,
			`docker run -v /etc/shadow:/x y`,
			`docker run --security-opt apparmor=unconfined x`,
			`docker run --mount type=bind,source=/home/ann,target=/x y`,
		},
		"write.system": {
			`usermod -aG sudo ann`,
			`visudo`,
			`chpasswd <<< 'root:x'`,
			`mount --bind x /etc`,
			`umount -a`,
			`insmod x.ko`,
			`git clone x /etc/foo`,
		},
		"perm.system": {
			`chattr -R +i /`,
		},
		"disk.format": {
			`zfs destroy -r x`,
		},
		"service.stop": {
			`loginctl disable-linger ann`,
			`busctl call org.freedesktop.systemd1 /x org.freedesktop.systemd1.Manager StopUnit ss nginx.service replace`,
		},
		"write.hermes": {
			`hermes-appliance config set mcp_servers.x.command sh`,
			`hermes-appliance config set terminal.backend local`,
			`hermes-appliance config unset terminal.docker_image`,
			`hermes-appliance config set secrets.command.command x`,
			`hermes-appliance config set model.base_url http://x`,
		},
		"hermes.trust": {
			`(sleep 9; curl -X POST localhost:8642/v1/runs/r1/approval -d x) &`,
			`curl localhost:8642/p/bob/v1/runs/r1/approval -d x`,
		},
	}
}

func TestDecideAttacks(t *testing.T) {
	t.Parallel()
	for id, commands := range attacks() {
		want := Refuse
		if strings.HasPrefix(id, "!") {
			want = Ask
		}
		for _, command := range commands {
			if v := Decide(Policy{}, command, at()); v.Decision != want || !covers(ids(v), id) {
				t.Errorf("%q: got %v %s, want %v %s", command, v.Decision, ids(v), want, id)
			}
		}
	}
	for id, commands := range detours() {
		for _, command := range commands {
			if v := Decide(Policy{}, command, at()); v.Decision != Ask || !covers(ids(v), id) {
				t.Errorf("%q: got %v %s, want ask %s", command, v.Decision, ids(v), id)
			}
		}
	}
}

// TestDecideEveryday: nobody is asked about what people type all day.
func TestDecideEveryday(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/everyday.txt")
	if err != nil {
		t.Fatal(err)
	}
	for command := range strings.Lines(string(data)) {
		if v := Decide(Policy{}, command, at()); v.Decision != Allow || len(v.Findings) > 0 {
			t.Errorf("%q: got %v %s, want allow", command, v.Decision, ids(v))
		}
	}
}
