"""A wheel with the binary as a script, for `uvx mcpproxy` and `pip install mcpproxy`.

The platform tag promises where the wheel runs. It is made from the newest symbol of glibc that the binary needs, and
`auditwheel` checks it.
"""

from __future__ import annotations

import base64
import hashlib
import re
import stat
import zipfile
from pathlib import Path

from common import DESCRIPTION, LICENSE, PACKAGING, ROOT, TOOLS, Failed, Release, fresh, note, run, step
from smoke import smoke

# The earliest time that a zip file can express, so that the same files give the same bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


def build(release: Release) -> Path:
    major, minor = release.glibc
    tag = f"py3-none-manylinux_{major}_{minor}_{release.machine}"
    wheel = release.out / f"mcpproxy-{release.version}-{tag}.whl"
    with step(f"PyPI: {wheel.name}"):
        note(f"needs glibc {major}.{minor} or newer, by the symbols of the binary")
        write(release, wheel, tag)
        check_tag(release, wheel)
    with step("PyPI: install with pip, uv and uvx, start a gateway, call a tool"):
        venv = fresh(release.out / "work" / "venv")
        uv = TOOLS / "uv"
        run([uv, "venv", "--quiet", "--clear", "--seed", venv])
        run([venv / "bin" / "pip", "install", "--quiet", "--no-index", wheel])
        smoke([venv / "bin" / "mcpproxy"])
        folder = fresh(release.out / "work" / "uv")
        own = {f"UV_{name}_DIR": str(folder / name) for name in ("CACHE", "TOOL", "TOOL_BIN")}
        run([uv, "tool", "install", "--offline", "--quiet", wheel], env=own)
        smoke([folder / "TOOL_BIN" / "mcpproxy"])
        said = run([uv, "tool", "run", "--offline", "--from", wheel, "mcpproxy", "--version"], env=own)
        if said.strip().splitlines()[-1] != f"mcpproxy {release.version}":
            raise Failed(f"`uvx mcpproxy --version` prints `{said.strip()}`")
    return wheel


def write(release: Release, wheel: Path, tag: str) -> None:
    name = f"mcpproxy-{release.version}"
    metadata = [
        "Metadata-Version: 2.4",
        "Name: mcpproxy",
        f"Version: {release.version}",
        f"Summary: {DESCRIPTION}",
        f"License-Expression: {LICENSE}",
        "License-File: LICENSE",
        "Requires-Python: >=3.8",
        "Description-Content-Type: text/markdown",
        "",
        (PACKAGING / "pypi" / "README.md").read_text(),
    ]
    about = ["Wheel-Version: 1.0", "Generator: mcpproxy-packaging", "Root-Is-Purelib: false", f"Tag: {tag}", ""]
    files = {
        f"{name}.data/scripts/mcpproxy": release.binary.read_bytes(),
        f"{name}.dist-info/METADATA": "\n".join(metadata).encode(),
        f"{name}.dist-info/WHEEL": "\n".join(about).encode(),
        f"{name}.dist-info/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    record = f"{name}.dist-info/RECORD"
    rows = [f"{path},sha256={digest(content)},{len(content)}" for path, content in files.items()]
    files[record] = "\n".join([*rows, f"{record},,", ""]).encode()
    level = 1 if release.is_quick else 9
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as packed:
        for path, content in files.items():
            info = zipfile.ZipInfo(path, EPOCH)
            mode = 0o755 if "/scripts/" in path else 0o644
            info.external_attr = (stat.S_IFREG | mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(info, content)


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def check_tag(release: Release, wheel: Path) -> None:
    """Asks auditwheel for the oldest system on which the wheel runs. The tag must not promise an older one."""
    said = run([TOOLS / "auditwheel", "show", wheel], env={"PATH": f"{TOOLS}:/usr/bin:/bin"})
    found = re.search(r'platform tag:\s+"manylinux_(\d+)_(\d+)_', re.sub(r"\s+", " ", said))
    if not found:
        raise Failed(f"auditwheel finds no manylinux tag for {wheel.name}:\n{said}")
    oldest = (int(found[1]), int(found[2]))
    if oldest > release.glibc:
        raise Failed(f"the tag of {wheel.name} promises too much: auditwheel says manylinux_{oldest[0]}_{oldest[1]}")
    note(f"auditwheel agrees: manylinux_{oldest[0]}_{oldest[1]}")
