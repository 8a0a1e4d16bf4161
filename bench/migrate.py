#!/usr/bin/env python3
"""Migrates one config from version 46 to 50 with four writers in one run and compares them.

The same edit is made by hermes-appliance, by a ruamel.yaml round trip (what upstream's newer
writer does), by PyYAML (what its older one did) and by yq. For each: the median time of a whole
command, the largest memory, and how many bytes it changed beside the planned ones. Ours is
measured twice: on files, which like the others it only reads and writes, and on a home, where it
also locks, backs up, journals and flushes every step to the disk.

Needs Debian's python3-ruamel.yaml, python3-yaml and time, Go, and yq v4 on PATH or in $YQ (without it
that row is left out). Usage: bench/migrate.py [runs]
"""
import difflib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLANNED = ("docker_image:", "vercel_runtime:", "threshold_tokens:", "tirith_enabled:", "tirith_fail_open:")


def config():
    """A config in the shape of upstream's template: 126 KB, nearly all of it comments, with a
    section that is split by comments at the margin."""
    out = ["# Hermes configuration", "_config_version: 46", "", "database:", '  journal_mode: "wal"  # or "delete"', ""]
    out += ["terminal:", '  backend: "local"', '  cwd: "."', "  timeout: 180",
            "  docker_image: nikolaik/python-nodejs:python3.11-nodejs20", "  vercel_runtime: node24", ""]
    out += [f"# option {i}: an alternative backend, described at the margin inside its section" for i in range(100)]
    out += ["  container_cpu: 1", "  container_memory: 5120", ""]
    out += ["compression:", "  enabled: true", "  threshold: 0.50", "  threshold_tokens: 256000  # copied", ""]
    out += ["security:", "  redact_secrets: true", "  tirith_enabled: true", "  tirith_fail_open: false", ""]
    n = 0
    while sum(len(line) + 1 for line in out) < 126_000:
        n += 1
        out.append("# " + "=" * 77)
        out += [f"# Section {n}: what this setting does, line {k} of its description, as the template has it" for k in range(10)]
        out += [f"section_{n}:", f"  enabled: {'true' if n % 2 else 'false'}", f'  name: "value {n}"  # a trailing comment',
                f"  list: [a, b, {n}]", "  # commented: option", ""]
    return "\n".join(out) + "\n"


def expected(src):
    lines = [line for line in src.splitlines(keepends=True) if not line.lstrip().startswith(PLANNED)]
    return "".join(lines).replace("_config_version: 46", "_config_version: 50", 1)


def stray(got, want):
    """Bytes added or removed beside the planned edit."""
    n = 0
    for line in difflib.unified_diff(want.splitlines(keepends=True), got.splitlines(keepends=True), n=0):
        if line[:1] in "+-" and not line.startswith(("+++", "---")):
            n += len(line[1:].encode())
    return n


RUAMEL = """
import sys
from ruamel.yaml import YAML
y = YAML(); y.preserve_quotes = True; y.width = 10**9; y.indent(mapping=2, sequence=4, offset=2)
d = y.load(open(sys.argv[1]))
for s, k in (("terminal", "docker_image"), ("terminal", "vercel_runtime"), ("compression", "threshold_tokens"),
             ("security", "tirith_enabled"), ("security", "tirith_fail_open")):
    del d[s][k]
d["_config_version"] = 50
y.dump(d, open(sys.argv[1], "w"))
"""
PYYAML = """
import sys, yaml
d = yaml.safe_load(open(sys.argv[1]))
for s, k in (("terminal", "docker_image"), ("terminal", "vercel_runtime"), ("compression", "threshold_tokens"),
             ("security", "tirith_enabled"), ("security", "tirith_fail_open")):
    del d[s][k]
d["_config_version"] = 50
yaml.safe_dump(d, open(sys.argv[1], "w"), sort_keys=False, allow_unicode=True)
"""
YQ = ("del(.terminal.docker_image) | del(.terminal.vercel_runtime) | del(.compression.threshold_tokens) | "
      "del(.security.tirith_enabled) | del(.security.tirith_fail_open) | ._config_version = 50")


def timed(command):
    """Runs a command: milliseconds and exit status."""
    start = time.perf_counter()
    child = subprocess.run(command, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1000, child.returncode


def peak(command):
    """Peak memory of a command in MB, as GNU time sees it; 0 without it."""
    if not os.path.exists("/usr/bin/time"):
        return 0
    done = subprocess.run(["/usr/bin/time", "-f", "%M", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return int(done.stderr.split()[-1]) / 1024


def measure(name, command, src, want, runs):
    times = []
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "config.yaml")
        for _ in range(runs):
            for entry in os.listdir(tmp):
                full = os.path.join(tmp, entry)
                shutil.rmtree(full) if os.path.isdir(full) else os.remove(full)
            with open(path, "w") as f:
                f.write(src)
            ms, status = timed(command(tmp, path))
            times.append(ms)
            if status != 0:
                sys.exit(f"{name}: status {status}")
        result = os.path.join(tmp, "new.yaml")
        with open(result if os.path.exists(result) else path) as f:
            got = f.read()
        if os.path.exists(result):
            os.remove(result)
        with open(path, "w") as f:
            f.write(src)
        memory = peak(command(tmp, path))
    return {"name": name, "ms": statistics.median(times), "mb": memory, "stray": stray(got, want)}


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    src = config()
    want = expected(src)
    with tempfile.TemporaryDirectory() as tmp:
        binary = os.path.join(tmp, "hermes-appliance")
        subprocess.run(["go", "build", "-trimpath", "-o", binary, "./cmd/hermes-appliance"], cwd=ROOT, check=True,
                       env={**os.environ, "CGO_ENABLED": "0"})
        python = "/usr/bin/python3"
        rows = [
            measure("hermes-appliance on files", lambda d, p: [binary, "migrate", "--quiet", "--old-config", p, "--new-config", d + "/new.yaml"], src, want, runs),
            measure("hermes-appliance on a home", lambda d, p: [binary, "migrate", "--home", d], src, want, runs),
            measure("ruamel.yaml round trip", lambda d, p: [python, "-c", RUAMEL, p], src, want, max(3, runs // 3)),
            measure("PyYAML load and dump", lambda d, p: [python, "-c", PYYAML, p], src, want, max(3, runs // 3)),
        ]
        yq = os.environ.get("YQ") or shutil.which("yq")
        if yq and b"mikefarah" in subprocess.run([yq, "--version"], capture_output=True).stdout:
            rows.append(measure("yq v4 in place", lambda d, p: [yq, "-i", YQ, p], src, want, runs))
        else:
            print("yq v4 is not on PATH nor in $YQ: its row is left out", file=sys.stderr)
        start = measure("hermes-appliance version", lambda d, p: [binary, "version"], src, want, runs)
        check = profiles(binary, src, runs)
    print(f"{len(src)} bytes, {runs} runs, median of whole commands\n")
    print("| writer | ms | times ours | MB | stray bytes |\n|---|---|---|---|---|")
    for r in rows:
        print(f"| {r['name']} | {r['ms']:.1f} | {r['ms'] / rows[0]['ms']:.1f} | {r['mb']:.0f} | {r['stray']} |")
    print(f"\nstart to `version`: {start['ms']:.1f} ms, {start['mb']:.0f} MB")
    for kind, r in check.items():
        print(f"200 profiles {kind}, --all-profiles --check: {r[0]:.0f} ms, {r[1]:.0f} MB")


def profiles(binary, src, runs):
    """Times --all-profiles --check on homes with 200 profiles."""
    out = {}
    small = "\n".join(line for line in src.splitlines() if not line.startswith("#"))[:6000].rsplit("\n", 1)[0] + "\n"
    for kind, text in (("of 6 KB", small), ("of 126 KB", src)):
        with tempfile.TemporaryDirectory() as tmp:
            for i in range(200):
                home = os.path.join(tmp, "profiles", f"p{i}")
                os.makedirs(home)
                with open(os.path.join(home, "config.yaml"), "w") as f:
                    f.write(text)
            with open(os.path.join(tmp, "config.yaml"), "w") as f:
                f.write(text)
            command = [binary, "migrate", "--all-profiles", "--check", "--home", tmp]
            times = [timed(command)[0] for _ in range(max(3, runs // 3))]
            memory = peak(command)
            out[kind] = (statistics.median(times), memory)
    return out


if __name__ == "__main__":
    main()
