"""Shared by all packages: the release that is packaged, its paths, and how steps run and report."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import tomllib
from contextlib import contextmanager
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
TOOLS = Path(sys.executable).parent
DESCRIPTION = "A gateway between AI agents and MCP servers that checks, approves and records every tool call"
LICENSE = "Apache-2.0"
# Names of this machine's architecture in Rust, npm and Debian.
MACHINES = {"x86_64": ("x86_64", "x64", "amd64"), "aarch64": ("aarch64", "arm64", "arm64")}
# Libraries that every Linux system with glibc has, and that distroless/cc has.
SYSTEM_LIBRARIES = re.compile(r"(libc|libm|libgcc_s|libdl|libpthread|librt)\.so\.\d|ld-linux.*\.so\.\d")
STEP_SECONDS = 600


class Failed(Exception):
    """A step that did not work. The message says why, and what to do."""


@dataclass(frozen=True)
class Release:
    """One binary, and where its packages go."""

    binary: Path
    out: Path
    version: str
    # The newest version of glibc of which the binary needs a symbol, such as (2, 34).
    glibc: tuple[int, int]
    # Compress lightly, for tests.
    is_quick: bool = False

    @property
    def machine(self) -> str:
        return platform.machine()

    @property
    def triple(self) -> str:
        return f"{MACHINES[self.machine][0]}-unknown-linux-gnu"

    @property
    def npm_machine(self) -> str:
        return MACHINES[self.machine][1]

    @property
    def debian_machine(self) -> str:
        return MACHINES[self.machine][2]


def workspace_version() -> str:
    """Returns the version in Cargo.toml, the only place where it is written for packages."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def release_of(binary: Path, out: Path, is_quick: bool) -> Release:
    """Looks at the binary, and refuses one that other machines could not run."""
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
        raise Failed(f"packages are built on Linux with {' or '.join(MACHINES)}, not on {platform.platform()}")
    version = workspace_version()
    said = run([binary, "--version"]).strip()
    if said != f"mcpproxy {version}":
        raise Failed(f"`{binary} --version` prints `{said}`, and Cargo.toml has {version}. Build the binary again.")
    needed, glibc = needs(binary)
    foreign = [library for library in needed if not SYSTEM_LIBRARIES.fullmatch(library)]
    if foreign:
        raise Failed(f"the binary needs libraries that other machines may not have: {', '.join(foreign)}")
    return Release(binary, out, version, glibc, is_quick)


def needs(binary: Path) -> tuple[list[str], tuple[int, int]]:
    """Returns the libraries that a binary loads, and the newest version of glibc that it needs."""
    with binary.open("rb") as file:
        elf = ELFFile(file)
        dynamic = elf.get_section_by_name(".dynamic")
        libraries = [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")] if dynamic else []
        names = [
            version.name
            for section in elf.iter_sections()
            if isinstance(section, GNUVerNeedSection)
            for _, versions in section.iter_versions()
            for version in versions
        ]
    found = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", name) for name in names]
    return libraries, max((int(one[1]), int(one[2])) for one in found if one)


def run(
    command: list[object],
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    seconds: float = STEP_SECONDS,
) -> str:
    """Runs a command and returns what it printed. Its output is shown only if it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
        )
    except FileNotFoundError:
        raise Failed(f"`{words[0]}` is not installed") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"`{' '.join(words)}` did not end within {seconds} s") from None
    if done.returncode != 0:
        raise Failed(f"`{' '.join(words)}` ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


@contextmanager
def step(what: str) -> Iterator[None]:
    """Prints what happens and how long it took."""
    print(f"package: {what}", flush=True)
    began = time.monotonic()
    yield
    if time.monotonic() - began > 10:
        print(f"package:   {time.monotonic() - began:.0f} s", flush=True)


# What this machine could not try, for the end of the output.
left_out: list[str] = []


def note(what: str) -> None:
    print(f"package:   {what}", flush=True)
    if what.startswith("NOT "):
        left_out.append(what)


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def ensure_commands(packages: dict[str, str]) -> None:
    """Installs the Debian packages of missing commands."""
    missing = {package for command, package in packages.items() if not shutil.which(command)}
    if not missing:
        return
    as_root = [] if os.geteuid() == 0 else ["sudo"]
    with step(f"installing {', '.join(sorted(missing))} with apt"):
        run([*as_root, "apt-get", "update"])
        environment = ["env", "DEBIAN_FRONTEND=noninteractive"]
        run([*as_root, *environment, "apt-get", "install", "-y", "--no-install-recommends", *sorted(missing)])


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def extras(release: Release, folder: Path) -> None:
    """Writes what the binary generates itself: manual pages in `man/`, and completion scripts in `completions/`."""
    pages = folder / "man"
    pages.mkdir(parents=True)
    run([release.binary, "man", "--to", pages])
    scripts = folder / "completions"
    scripts.mkdir()
    for shell, name in [("bash", "mcpproxy"), ("zsh", "_mcpproxy"), ("fish", "mcpproxy.fish")]:
        # The script names the program by the path it was called with, so it is called as an installed one.
        text = run(["mcpproxy", "completions", shell], env=on_path(release.binary))
        (scripts / name).write_text(text)


def on_path(binary: Path) -> dict[str, str]:
    return {"PATH": f"{binary.parent}:{os.environ['PATH']}"}


def copy_committed(source: Path, target: Path, may_differ: bool, root: Path = ROOT) -> None:
    """Copies the files that Git knows. Somebody who tried Compose here has tokens and passwords beside them."""
    if not (root / ".git").exists():
        # The sources without their history have only files of a commit.
        shutil.copytree(source, target)
        return
    if not may_differ and (changed := run(["git", "-C", root, "diff", "--name-only", "HEAD", "--", source]).split()):
        raise Failed(f"{', '.join(changed)} differ from the last commit. Commit or restore them, then package again.")
    for name in run(["git", "-C", root, "ls-files", "-z", "--", source]).split("\0"):
        if name:
            place = target / (root / name).relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, place)
