"""Builds and tries every package of one binary. `scripts/package` runs it.

Each package is one module with a `build` function that also tries what it built. The first thing that does not work ends
the run.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import cargo
import deb
import image
import manifests
import npm
import pages
import sbom
import tarball
import wheel
from common import ROOT, Failed, ensure_commands, fresh, left_out, release_of, run, sha256, step


def main() -> int:
    options = argparse.ArgumentParser(prog="scripts/package", description="Builds and tries every package.")
    options.add_argument("--binary", type=Path, help="package this binary instead of building one")
    options.add_argument("--out", type=Path, default=ROOT / "target" / "package", help="the folder for the packages")
    options.add_argument("--quick", action="store_true", help="compress lightly and leave lintian out, for tests")
    options.add_argument(
        "--cargo-install",
        action="store_true",
        help="also try cargo install with the dist profile, which takes over a build in the target folder",
    )
    options.add_argument(
        "--image-from-source",
        action="store_true",
        help="also compile and try the image of packaging/container/Dockerfile, which takes long",
    )
    options.add_argument(
        "--npm-platform",
        action="append",
        default=[],
        metavar="OS-CPU",
        help="another platform whose npm package is built elsewhere, such as darwin-arm64",
    )
    given = options.parse_args()
    try:
        package(given)
    except Failed as failure:
        print(f"package: FAILED: {failure}", file=sys.stderr)
        return 1
    return 0


def package(given: argparse.Namespace) -> None:
    ensure_commands({"strip": "binutils", "npm": "npm", "tar": "tar"})
    out = fresh(given.out.resolve())
    work = out / "work"
    work.mkdir()
    binary = stripped(given.binary.resolve(), work) if given.binary else None
    if binary is None:
        raise Failed("no binary was given or built")
    release = release_of(binary, out, given.quick)
    files = [tarball.build(release), *npm.build(release, given.npm_platform), wheel.build(release), deb.build(release)]
    manifests.check()
    if context := image.build(release, given.image_from_source):
        files.append(manifests.build(release, context))
    files.append(sbom.build(release))
    cargo.try_install(release, given.cargo_install)
    # A binary that is too new for the image has no deploy archive, and the pages name one.
    if context:
        pages.check(files)
    shutil.rmtree(work)
    sums = out / "SHA256SUMS"
    sums.write_text("".join(f"{sha256(file)}  {file.name}\n" for file in sorted(files)))
    with step("checksums: SHA256SUMS"):
        run(["sha256sum", "--check", "--strict", "--quiet", sums.name], cwd=out)
    print(f"\n{'FILE':<56}{'SIZE':>10}  SHA-256")
    for file in [*sorted(files), sums]:
        print(f"{file.name:<56}{size(file):>10}  {sha256(file)}")
    print(f"\npackage: {len(files)} files in {out}")
    for what in left_out:
        print(f"package: {what}")


def stripped(binary: Path, work: Path) -> Path:
    """Returns a copy of the binary without debug information. A release build has none anyway."""
    if not binary.is_file():
        raise Failed(f"{binary} does not exist")
    folder = work / "binary"
    folder.mkdir()
    copy = folder / "mcpproxy"
    run(["strip", "--strip-all", "-o", copy, binary])
    copy.chmod(0o755)
    return copy


def size(file: Path) -> str:
    bytes_ = file.stat().st_size
    return f"{bytes_ / 2**20:.1f} MiB" if bytes_ >= 2**20 else f"{bytes_ / 2**10:.1f} KiB"


if __name__ == "__main__":
    sys.exit(main())
