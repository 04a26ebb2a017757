"""The binary with its manual pages and completion scripts, as an archive."""

from __future__ import annotations

import gzip
import shutil
import tarfile
from pathlib import Path

from common import ROOT, Release, extras, fresh, run, step
from smoke import smoke


def build(release: Release) -> Path:
    name = f"mcpproxy-{release.version}-{release.triple}"
    archive = release.out / f"{name}.tar.gz"
    with step(f"archive: {archive.name}"):
        folder = fresh(release.out / "work" / name)
        shutil.copy2(release.binary, folder / "mcpproxy")
        for text in ("LICENSE", "README.md", "CHANGELOG.md"):
            shutil.copy2(ROOT / text, folder)
        extras(release, folder)
        pack(folder, archive, name, 1 if release.is_quick else 9)
    with step("archive: unpack, start a gateway, call a tool"):
        target = fresh(release.out / "work" / "unpacked")
        run(["tar", "-xzf", archive, "-C", target])
        smoke([target / name / "mcpproxy"])
    return archive


def pack(folder: Path, archive: Path, name: str, level: int) -> None:
    """Packs a folder. The same files give the same bytes: names are sorted, and times and owners are left out."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = "root"
        info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
        return info

    with archive.open("wb") as file, gzip.GzipFile("", "wb", level, file, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(folder, name, recursive=False, filter=plain)
            for path in sorted(folder.rglob("*")):
                tar.add(path, f"{name}/{path.relative_to(folder)}", recursive=False, filter=plain)
