"""A Debian package with a hardened systemd service, built with dpkg-deb.

It is checked in four ways: lintian, `systemd-analyze verify` and `security` on its unit, and an installation. That one
runs in an overlay over the root of this machine, so that nothing of it stays. Where the kernel allows no overlay, the
output says so.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
from pathlib import Path

from common import PACKAGING, ROOT, Failed, Release, ensure_commands, extras, fresh, note, run, step
from smoke import smoke

SOURCE = PACKAGING / "deb"
UNIT = "usr/lib/systemd/system/mcpproxy.service"
# The exposure that `systemd-analyze security` may report: 0 is closed, 10 is open.
EXPOSURE_MAX = 3.0
PACKAGES = {"dpkg-deb": "dpkg", "lintian": "lintian", "systemd-analyze": "systemd"}


def build(release: Release) -> Path:
    ensure_commands(PACKAGES)
    package = release.out / f"mcpproxy_{release.version}_{release.debian_machine}.deb"
    with step(f"Debian: {package.name}"):
        tree = fresh(release.out / "work" / "deb")
        fill(release, tree)
        compression = ["-Zgzip", "-z1"] if release.is_quick else ["-Zxz"]
        run(["dpkg-deb", "--root-owner-group", *compression, "--build", tree, package])
    with step("Debian: lintian, systemd-analyze"):
        check_package(release, package)
    with step("Debian: install, start the gateway as the service does, remove, purge"):
        try_installation(package)
    return package


def fill(release: Release, tree: Path) -> None:
    """Lays out the files of the package."""
    install(release.binary, tree / "usr/bin/mcpproxy", 0o755)
    install(SOURCE / "mcpproxy.service", tree / UNIT, 0o644)
    install(SOURCE / "mcp_config.json", tree / "etc/mcpproxy/mcp_config.json", 0o644)
    for folder in ("contracts", "policies"):
        (tree / "etc/mcpproxy" / folder).mkdir()
    work = fresh(tree.with_name("deb-extras"))
    extras(release, work)
    for page in sorted((work / "man").iterdir()):
        write_gz(page.read_bytes(), tree / "usr/share/man/man1" / f"{page.name}.gz")
    install(work / "completions/mcpproxy", tree / "usr/share/bash-completion/completions/mcpproxy", 0o644)
    install(work / "completions/_mcpproxy", tree / "usr/share/zsh/vendor-completions/_mcpproxy", 0o644)
    install(work / "completions/mcpproxy.fish", tree / "usr/share/fish/vendor_completions.d/mcpproxy.fish", 0o644)
    documents = tree / "usr/share/doc/mcpproxy"
    write_gz(changelog(release).encode(), documents / "changelog.gz")
    (documents / "copyright").write_text(copyright_text())
    install(SOURCE / "lintian-overrides", tree / "usr/share/lintian/overrides/mcpproxy", 0o644)
    control = tree / "DEBIAN"
    control.mkdir()
    for script in ("postinst", "prerm", "postrm"):
        install(SOURCE / script, control / script, 0o755)
    (control / "conffiles").write_text("/etc/mcpproxy/mcp_config.json\n")
    write_control(release, tree, control)
    for path in [tree, *tree.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        elif path.stat().st_mode & 0o100 == 0:
            path.chmod(0o644)


def write_control(release: Release, tree: Path, control: Path) -> None:
    files = [path for path in tree.rglob("*") if path.is_file() and control not in path.parents]
    values = {
        "VERSION": release.version,
        "ARCHITECTURE": release.debian_machine,
        "INSTALLED_SIZE": str(sum(path.stat().st_size for path in files) // 1024),
        "GLIBC": f"{release.glibc[0]}.{release.glibc[1]}",
    }
    text = re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], (SOURCE / "control").read_text())
    (control / "control").write_text(text)
    sums = [run(["md5sum", path.relative_to(tree)], cwd=tree) for path in sorted(files)]
    (control / "md5sums").write_text("".join(sums))


def install(source: Path, target: Path, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def write_gz(content: bytes, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(content)


def changelog(release: Release) -> str:
    # A fixed time, so that the same files give the same bytes.
    return (
        f"mcpproxy ({release.version}) unstable; urgency=medium\n\n"
        "  * See CHANGELOG.md of the project.\n\n"
        " -- The mcpproxy authors <mcpproxy@example.org>  Thu, 01 Jan 2026 00:00:00 +0000\n"
    )


def copyright_text() -> str:
    return (
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
        "Upstream-Name: mcpproxy\n\n"
        "Files: *\n"
        "Copyright: 2026 the mcpproxy authors\n"
        "License: Apache-2.0\n"
        " On Debian systems, the text of the license is in /usr/share/common-licenses/Apache-2.0.\n"
    )


# -- checks -----------------------------------------------------------------------------------------------------


def check_package(release: Release, package: Path) -> None:
    if release.is_quick:
        note("lintian is left out of a quick run, because it unpacks the binary several times")
    else:
        # Not about a package outside of Debian, or about how Rust builds binaries.
        ignored = "no-manual-page,embedded-library,hardening-no-fortify-functions,statically-linked-binary,unknown-field"
        run(["lintian", "--fail-on", "error", "--suppress-tags", ignored, package])
        note("lintian finds no error")
    root = fresh(release.out / "work" / "deb-root")
    run(["dpkg-deb", "-x", package, root])
    smoke([root / "usr/bin/mcpproxy"])
    unit = root / UNIT
    check_unit(unit, root / "usr/bin/mcpproxy", release.out / "work")


def check_unit(unit: Path, binary: Path, work: Path) -> float:
    """Checks the unit with systemd's own parser. Returns its exposure."""
    folder = fresh(work / "unit")
    # `verify` wants the program to exist on this machine.
    text = unit.read_text().replace("ExecStart=/usr/bin/mcpproxy", f"ExecStart={binary}")
    copy = folder / unit.name
    copy.write_text(text)
    said = run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", copy])
    if mistakes := [line for line in said.splitlines() if unit.name in line]:
        raise Failed("systemd-analyze verify: " + "\n".join(mistakes))
    said = run(["systemd-analyze", "security", "--offline=true", "--no-pager", copy])
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)
    if not found:
        raise Failed(f"systemd-analyze security prints no exposure:\n{said}")
    exposure = float(found[1])
    if exposure > EXPOSURE_MAX:
        raise Failed(f"the unit has an exposure of {exposure}, and {EXPOSURE_MAX} is allowed:\n{said}")
    note(f"systemd-analyze: the unit is valid, exposure {exposure} of 10")
    return exposure


def try_installation(package: Path) -> None:
    if os.geteuid() != 0 or not can_overlay():
        note("NOT TRIED: dpkg -i in an overlay needs root and a kernel that allows overlay mounts in containers")
        return
    script = Path(__file__).with_name("try-deb.sh")
    said = run(["unshare", "--mount", "--pid", "--fork", "sh", script, package])
    note(said.strip().splitlines()[-1])


def can_overlay() -> bool:
    attempt = "mount -t tmpfs t /mnt && mkdir /mnt/u /mnt/w /mnt/m && " + (
        "mount -t overlay o -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/m"
    )
    done = subprocess.run(["unshare", "--mount", "sh", "-c", attempt], capture_output=True, check=False)
    return done.returncode == 0
