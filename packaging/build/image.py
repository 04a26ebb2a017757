"""The container image: built from the packaged binary, and tried.

Two files describe the same image. `Dockerfile.binary` copies the binary that every other package carries, so the image
holds what was tested, and is built in seconds. `Dockerfile` compiles the sources, for users of a checkout. A check keeps the
lines of both alike.

Where docker, podman or buildah works, the image is built, and a container is started with a read-only file system and
without capabilities. Where none works, the lines of `Dockerfile.binary` are followed by hand: its files are laid out in a
folder with nothing but glibc, and the gateway runs there with the folder as its root and as the user of the image. That finds
a wrong path, owner or mode, and a missing library. It does not try the base image.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from common import PACKAGING, ROOT, TOOLS, Failed, Release, copy_committed, fresh, note, run, step
from smoke import START_SECONDS, call, serve_and_call

CONTAINER = PACKAGING / "container"
FROM_SOURCE = CONTAINER / "Dockerfile"
FROM_BINARY = CONTAINER / "Dockerfile.binary"
# The version of glibc in distroless/cc-debian12.
IMAGE_GLIBC = (2, 36)
# Compiling in a container has to fetch all crates, and may have one core.
SOURCE_SECONDS = 2 * 3600
# The variables that container runtimes set in this image.
RUNTIME_ENVIRONMENT = ("HOME=/home/nonroot", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
Instruction = tuple[str, str]


def build(release: Release, is_from_source: bool) -> Path | None:
    """Checks, builds and tries the image. Returns its build context, or nothing if the binary is too new for it."""
    with step("container: hadolint, and both Dockerfiles against each other"):
        check_files()
    if is_from_source:
        build_from_source(release)
    if release.glibc > IMAGE_GLIBC:
        needed, has = (".".join(map(str, version)) for version in (release.glibc, IMAGE_GLIBC))
        note(f"NOT BUILT: the image has glibc {has}, and this binary needs {needed}. So there is no deploy archive either.")
        note("           Build the binary on Debian 12, or the image with packaging/container/Dockerfile")
        return None
    context = release.out / "work" / "container"
    fill(release, context)
    with step("container: image from the packaged binary"):
        builder = image_builder()
        if builder is None:
            note("NOT BUILT: no docker, podman or buildah works on this machine")
            try_without_builder(release, context)
        else:
            tag = f"mcpproxy:{release.version}"
            run([builder, "build", "-f", context / FROM_BINARY.name, "-t", tag, context])
            try_image(builder, tag, release)
    return context


def build_from_source(release: Release) -> None:
    with step("container: image from source, which compiles everything"):
        builder = image_builder()
        if builder is None:
            raise Failed("--image-from-source needs docker, podman or buildah, and none works on this machine")
        tag = f"mcpproxy:{release.version}-source"
        run([builder, "build", "-f", FROM_SOURCE, "-t", tag, ROOT], seconds=SOURCE_SECONDS)
        try_image(builder, tag, release)


def fill(release: Release, context: Path) -> None:
    """Lays out the build context: the file, the binary, and the first content of the data folder."""
    fresh(context)
    shutil.copy2(FROM_BINARY, context)
    shutil.copy2(release.binary, context / "mcpproxy")
    copy_committed(CONTAINER / "home", context / "home", may_differ=release.is_quick)


# -- the files --------------------------------------------------------------------------------------------------


def check_files(from_source: Path = FROM_SOURCE, from_binary: Path = FROM_BINARY) -> None:
    for path in (from_source, from_binary):
        run([TOOLS / "hadolint", "--no-color", "--failure-threshold", "style", path])
    note("hadolint finds nothing")
    check_toolchain(from_source)
    compiled = [(name, rest.replace("--from=build ", "").replace("/image/", "")) for name, rest in final_stage(from_source)]
    if compiled != final_stage(from_binary):
        raise Failed(f"{from_source.name} and {from_binary.name} describe different images. Make their last stages equal.")


def check_toolchain(from_source: Path) -> None:
    """Checks that the image is built with a Rust that Cargo.toml accepts."""
    wanted = re.search(r'rust-version = "([0-9.]+)"', (ROOT / "Cargo.toml").read_text())
    used = re.search(r"^FROM rust:([0-9.]+)-", from_source.read_text(), re.M)
    if not wanted or not used or wanted[1] != used[1]:
        raise Failed("the Rust version in packaging/container/Dockerfile is not `rust-version` of Cargo.toml")


def final_stage(dockerfile: Path) -> list[Instruction]:
    """Returns the instructions of the last stage, as pairs such as ("USER", "65532:65532")."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", dockerfile.read_text(), flags=re.M))
    pairs = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    instructions = [(name, " ".join(rest.split())) for name, rest in pairs]
    begins = max(number for number, (name, _) in enumerate(instructions) if name == "FROM")
    return instructions[begins:]


def value(stage: list[Instruction], name: str) -> str:
    (found,) = [rest for instruction, rest in stage if instruction == name]
    return found


# -- with a builder ---------------------------------------------------------------------------------------------


def image_builder() -> str | None:
    """Returns the first builder that works. A docker command without a daemon does not."""
    for name in ("docker", "podman", "buildah"):
        if shutil.which(name) and subprocess.run([name, "info"], capture_output=True, check=False).returncode == 0:
            return name
    return None


def try_image(builder: str, tag: str, release: Release) -> None:
    """Runs a container as docs/install.md says that it works: read-only, without capabilities, and not as root."""
    if builder == "buildah":
        note(f"built {tag}. NOT TRIED: buildah builds images and does not run them")
        return
    said = run([builder, "run", "--rm", tag, "--version"]).strip()
    if said != f"mcpproxy {release.version}":
        raise Failed(f"the image prints `{said}`")
    user = run([builder, "inspect", "--format", "{{.Config.User}}", tag]).strip()
    if user != value(final_stage(FROM_BINARY), "USER"):
        raise Failed(f"the image runs as `{user}`")
    hardened = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--tmpfs", "/tmp"]
    container = run([builder, "run", "--detach", *hardened, "--publish", "127.0.0.1::8080", tag]).split()[-1]
    try:
        wait_until_ready(builder, container)
        inside = [builder, "exec", container, "/usr/bin/mcpproxy"]
        run([*inside, "status"])
        call(inside, {})
        run([builder, "stop", "-t", "60", container])
        code = run([builder, "inspect", "--format", "{{.State.ExitCode}}", container]).strip()
        if code != "0":
            raise Failed(f"the container ended with {code}:\n{logs(builder, container)}")
    finally:
        subprocess.run([builder, "rm", "--force", "--volumes", container], capture_output=True, check=False)
    note(f"built {tag}, served read-only and without capabilities as {user}, and stopped")


def wait_until_ready(builder: str, container: str) -> None:
    published = run([builder, "port", container, "8080"]).split()[0]
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://{published}/readyz", timeout=5):
                return
        except (OSError, urllib.error.URLError):
            time.sleep(0.2)
    raise Failed(f"the gateway in the container is not ready:\n{logs(builder, container)}")


def logs(builder: str, container: str) -> str:
    done = subprocess.run([builder, "logs", container], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr)[-4000:]


# -- without a builder ------------------------------------------------------------------------------------------


def try_without_builder(release: Release, context: Path) -> None:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        note("NOT TRIED: without a builder, running the files of the image needs root, and a mount namespace")
        return
    stage = final_stage(context / FROM_BINARY.name)
    root = fresh(release.out / "work" / "image-root")
    lay_out(stage, context, root)
    add_libraries(release.binary, root)
    user = value(stage, "USER")
    name, _, home = value(stage, "ENV").partition("=")
    # As in a container, the program sees /proc and /dev. The mounts end with it.
    enter = f'mount --rbind /proc "$1/proc"; mount --rbind /dev "$1/dev"; exec chroot --groups= --userspec={user} "$@"'
    inside = ["env", "-i", f"{name}={home}", *RUNTIME_ENVIRONMENT, "unshare", "--mount", "sh", "-ec", enter, "sh", root]
    program, first = json.loads(value(stage, "ENTRYPOINT")), json.loads(value(stage, "CMD"))
    check = json.loads(value(stage, "HEALTHCHECK").partition(" CMD ")[2])
    serve_and_call(
        [*inside, *program],
        # Port 8080 of this machine may be taken. In a container it is free.
        serve=[*first, "--listen", "127.0.0.1:0"],
        home=root / home.lstrip("/"),
        log=release.out / "work" / "image.log",
        once_ready=lambda: run([*inside, *check]),
    )
    note(f"without a builder: its files serve as {user} in a folder with glibc alone")


def lay_out(stage: list[Instruction], context: Path, root: Path) -> None:
    """Copies what the COPY instructions name, with their owners and modes."""
    for folder in ("proc", "dev", "tmp"):
        (root / folder).mkdir()
    (root / "tmp").chmod(0o1777)
    for rest in (rest for name, rest in stage if name == "COPY"):
        words = rest.split()
        options = dict(word.removeprefix("--").split("=") for word in words if word.startswith("--"))
        source, target = [word for word in words if not word.startswith("--")]
        place = root / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if not (context / source).exists():
            raise Failed(f"Dockerfile.binary copies {source}, which its context does not have")
        (shutil.copytree if (context / source).is_dir() else shutil.copy2)(context / source, place)
        owner = [int(id) for id in options.get("chown", "0:0").split(":")]
        for path in [place, *place.rglob("*")]:
            os.chown(path, *owner)
            path.chmod(int(options["chmod"], 8))


def add_libraries(binary: Path, root: Path) -> None:
    """Copies the libraries that the binary loads. The image has those of Debian 12, and this folder this machine's."""
    for library in re.findall(r"(/\S+) \(0x", run(["ldd", binary])):
        place = root / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
