"""Checks the Dockerfile: builds the image where a builder runs, else does its steps apart.

Without a builder, and as root: a layer in memory over this machine's files, a fresh Python in it,
and in that the Dockerfile's instructions one by one. Then the node runs as the image's user with
the image's environment alone, until the image's health check passes. Nothing is left behind.

    packaging/release.sh && python packaging/check_image.py
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BUILDERS = (("docker", "info"), ("podman", "info"))
PYTHON = "/usr/local/fresh"
HEALTHY_SECONDS = 120
LAYER_MIB = 2048


class Image(NamedTuple):
    """What a Dockerfile says; ``steps`` are the commands of COPY and RUN, in order."""

    steps: list[str]
    environment: dict[str, str]
    user: str
    folder: str
    health: list[str]
    command: list[str]


def read(dockerfile: str) -> Image:
    """Raises ValueError for an instruction that is unknown here."""
    image = Image([], {}, "", "", [], [])
    arguments: list[str] = []
    lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, rest = line.strip().partition(" ")
        match name:
            case "COPY":
                *sources, target = rest.split()
                found = [f"/source/{source}" for source in sources]
                image.steps.append(f"mkdir -p {target} && cp {' '.join(found)} {target}")
            case "ARG":
                arguments.append(rest)
            case "RUN":
                image.steps.append("; ".join([*arguments, rest]))
            case "ENV":
                for part in shlex.split(rest):
                    key, _, value = part.partition("=")
                    image.environment[key] = value
            case "USER":
                image = image._replace(user=rest)
            case "WORKDIR":
                image = image._replace(folder=rest)
            case "HEALTHCHECK":
                image = image._replace(health=json.loads(rest[rest.index("[") :]))
            case "ENTRYPOINT" | "CMD":
                image = image._replace(command=[*image.command, *json.loads(rest)])
            case "" | "FROM" | "VOLUME" | "EXPOSE":
                pass
            case _:
                raise ValueError(f"the Dockerfile's instruction {name} is not checked")
    return image


def script(image: Image, layer: Path) -> str:
    """For a shell in a mount namespace of its own."""
    root = layer / "root"
    inside = ["chroot", str(root)]
    path = f"PATH={PYTHON}/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    settings = [path, *(f"{name}={value}" for name, value in image.environment.items())]
    as_user = [
        "chroot", f"--userspec={image.user}:{image.user}", str(root), "env", "-i", *settings
    ]  # fmt: skip
    entry = f"cd {image.folder} && exec {shlex.join(image.command)}"
    lines = [
        "set -eu",
        f"mount -t tmpfs -o size={LAYER_MIB}m tmpfs {layer}",
        f"mkdir {layer}/upper {layer}/work {root}",
        f"cd {layer}",
        "mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root",
        f"for each in proc dev sys; do mount --rbind /$each {root}/$each; done",
        f"mkdir {root}/source && cp -r {ROOT}/dist {root}/source/dist",
        # The interpreter of this machine may lie in root's home.
        f"chmod a+rx {root}/root",
        shlex.join([*inside, sys.executable, "-m", "venv", PYTHON]),
        *(
            shlex.join([*inside, "env", path, "PIP_QUIET=2", "sh", "-c", step])
            for step in image.steps
        ),
        f"{shlex.join([*as_user, 'sh', '-c', entry])} & node=$!",
        "trap 'kill $node 2>/dev/null || :' EXIT",
        f"for n in $(seq {HEALTHY_SECONDS}); do",
        f"  if {shlex.join([*as_user, *image.health])} 2>/dev/null; then healthy=$n; break; fi",
        "  kill -0 $node; sleep 1",
        "done",
        'test -n "${healthy:-}"',
        f"test $({shlex.join([*inside, 'stat', '-c', '%U:%a', image.folder])}) = {image.user}:700",
        "kill $node; wait $node",
        'echo "the steps succeed, the node is healthy and stops cleanly"',
    ]
    return "\n".join(lines)


def main() -> int:
    if not list((ROOT / "dist").glob("*.whl")):
        print("dist/ has no wheels: packaging/release.sh builds them", file=sys.stderr)
        return 2
    for builder, alive in BUILDERS:
        if shutil.which(builder) and not subprocess.run([builder, alive], capture_output=True,
                                                        check=False).returncode:  # fmt: skip
            build = [builder, "build", "--tag", "engramlog:checked", str(ROOT)]
            return subprocess.run(build, check=False).returncode
    alone = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
    if os.geteuid() != 0 or subprocess.run([*alone, "true"], check=False).returncode:
        print("not checked: no builder runs here, and no namespace may be made", file=sys.stderr)
        return 0
    image = read((ROOT / "Dockerfile").read_text("utf-8"))
    with tempfile.TemporaryDirectory() as layer:
        return subprocess.run([*alone, script(image, Path(layer))], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
