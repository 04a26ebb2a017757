"""Packages: all are built from the binary under test and tried, and mistakes in their files are found.

`scripts/package --quick` does most of it. The rest shows that its checks can fail, and runs a gateway from volumes with
the owners and modes that Kubernetes gives them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import httpx
import pytest

import peers
from gateway import until
from log import PostgresStorage
from postgres import Postgres, postgres  # noqa: F401

PACKAGING = peers.ROOT / "packaging"
TOOLS = peers.ROOT / ".tools" / "packaging" / "bin"
IS_ROOT = os.geteuid() == 0
# The user of the image. Only root can give files to another user and become one.
UID = 65532 if IS_ROOT else os.geteuid()
AS_USER = {"user": UID, "group": UID, "extra_groups": []} if IS_ROOT else {}
KEY = "0123456789abcdef" * 4


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    """Installs the tools of `scripts/package`."""
    subprocess.run([peers.ROOT / "scripts" / "package", "--help"], check=True, capture_output=True, timeout=600)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_package_is_built_and_works(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        [peers.ROOT / "scripts" / "package", "--quick", "--binary", peers.MCPPROXY, "--out", out],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    version = subprocess.run([peers.MCPPROXY, "--version"], capture_output=True, text=True).stdout.split()[1]
    names = sorted(path.name for path in out.iterdir())
    assert all(version in name for name in names if name != "SHA256SUMS"), names
    kinds = [".whl", ".deb", ".cdx.json", f"mcpproxy-{version}.tgz", "linux-gnu.tar.gz", "deploy.tar.gz", "SHA256SUMS"]
    assert all(any(name.endswith(kind) for name in names) for kind in kinds), names
    listed = [line.split()[1] for line in (out / "SHA256SUMS").read_text().splitlines()]
    assert sorted([*listed, "SHA256SUMS"]) == names


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Runs code with the modules of the packaging."""
    return subprocess.run(
        [TOOLS / "python", "-c", code],
        cwd=PACKAGING / "build",
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(PACKAGING / "build")},
    )


MANIFEST_MISTAKES = [
    "one['spec']['replica'] = 3",
    "one['spec']['replicas'] = 'three'",
    "one['spec']['template']['spec']['containers'][0]['livenessProbe']['httpGet']['host_header'] = 'x'",
    "one['apiVersion'] = 'apps/v1beta1'",
    "del one['spec']['selector']",
]


def test_wrong_manifests_are_found() -> None:
    """One process for all, because loading the schemas takes seconds."""
    code = f"""
import common, manifests
for mistake in {["pass", *MANIFEST_MISTAKES]!r}:
    (one,) = [document for document in manifests.documents() if document["kind"] == "StatefulSet"]
    exec(mistake)
    try:
        manifests.validate(one)
        print("fine")
    except common.Failed as failure:
        print(str(failure).splitlines()[0])
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    fine, *found = done.stdout.splitlines()
    assert fine == "fine"
    assert len(found) == len(MANIFEST_MISTAKES)
    assert all(line.startswith("StatefulSet mcpproxy") for line in found), found


def test_a_wrong_compose_file_is_found(tmp_path: Path) -> None:
    text = (PACKAGING / "compose" / "compose.yaml").read_text()
    wrong = tmp_path / "compose.yaml"
    for old, new in [("stop_grace_period: 30s", "stop_grace: 30s"), ("image: mcpproxy:", "image: mcpproxy:9")]:
        wrong.write_text(text.replace(old, new))
        done = python(f"import manifests, pathlib; manifests.check_compose(pathlib.Path({str(wrong)!r}))")
        assert done.returncode == 1 and "common.Failed" in done.stderr, done.stderr


def test_a_wrong_unit_is_found(tmp_path: Path) -> None:
    text = (PACKAGING / "deb" / "mcpproxy.service").read_text()
    unit = tmp_path / "mcpproxy.service"
    check = f"import deb, pathlib; p = pathlib.Path; deb.check_unit(p({str(unit)!r}), p('/bin/true'), p({str(tmp_path)!r}))"
    unit.write_text(text)
    assert python(check).returncode == 0
    open_unit = "\n".join(line for line in text.splitlines() if not re.match("Protect|Private|Restrict|System|Cap", line))
    for wrong in [text.replace("Restart=on-failure", "Restart=sometimes"), text.replace("UMask", "UMaks"), open_unit]:
        unit.write_text(wrong)
        done = python(check)
        assert done.returncode == 1 and "common.Failed" in done.stderr, f"{done.stdout}\n{done.stderr}"


def test_the_times_to_stop_fit_together() -> None:
    """A service manager that kills earlier would cut off calls that `shutdown_grace` lets end."""
    grace = int(re.search(r'"shutdown_grace": "(\d+)s"', (PACKAGING / "kubernetes/config/mcp_config.json").read_text())[1])
    pods = (PACKAGING / "kubernetes" / "statefulset.yaml").read_text()
    sleep = int(re.search(r"sleep:\s+seconds: (\d+)", pods)[1])
    assert int(re.search(r"terminationGracePeriodSeconds: (\d+)", pods)[1]) >= sleep + grace + 20
    unit, compose = PACKAGING / "deb" / "mcpproxy.service", PACKAGING / "compose" / "compose.yaml"
    assert int(re.search(r"TimeoutStopSec=(\d+)s", unit.read_text())[1]) >= 10 + 20
    assert int(re.search(r"stop_grace_period: (\d+)s", compose.read_text())[1]) >= 10 + 20


# -- volumes as in Kubernetes -----------------------------------------------------------------------------------


def test_a_gateway_runs_from_the_volumes_of_the_manifests(
    postgres: Postgres,  # noqa: F811
    tmp_path: Path,
) -> None:
    storage = PostgresStorage(postgres, postgres.create())
    _open_to_all(tmp_path)
    volume = tmp_path / "volume"
    volume.mkdir()
    _give_to_group(volume, 0o2775)
    config, keys = _projected(tmp_path / "config"), _secret(tmp_path / "keys")
    home = volume / "home"
    program = tmp_path / "mcpproxy"
    shutil.copy2(peers.MCPPROXY, program)
    for _ in range(2):
        # The second time is a restart on the same volume.
        prepared = _prepare(config, keys, home)
        assert prepared.returncode == 0, prepared.stderr
        _serves(program, home, storage.settings()["storage"]["url"])
    assert (home / "admin.key").read_text().strip() == KEY
    assert sorted(path.name for path in (home / "contracts").iterdir()) == ["demo.yaml"]


def test_a_secret_that_was_not_replaced_is_refused(tmp_path: Path) -> None:
    _open_to_all(tmp_path)
    config, keys = _projected(tmp_path / "config"), _secret(tmp_path / "keys")
    (keys / "..data" / "sealing.key").write_text("replace me")
    if IS_ROOT:
        os.chown(tmp_path, UID, UID)
    done = _prepare(config, keys, tmp_path / "home")
    assert done.returncode == 1 and "openssl rand -hex 32" in done.stderr, done.stderr


def _open_to_all(folder: Path) -> None:
    """Lets another user reach the folder. pytest creates its folders with mode 0700, one more for each worker."""
    for one in [folder, *folder.parents]:
        if one == Path(tempfile.gettempdir()):
            break
        one.chmod(0o755)


def _give_to_group(path: Path, mode: int) -> None:
    if IS_ROOT:
        os.chown(path, 0, UID, follow_symlinks=False)
    path.chmod(mode)


def _projected(folder: Path) -> Path:
    """Lays out the files of the ConfigMaps as the kubelet does: world-writable, with links into a hidden folder."""
    data = folder / "..data"
    (data / "contracts").mkdir(parents=True)
    source = PACKAGING / "kubernetes"
    shutil.copy(source / "prepare.sh", data)
    settings = (source / "config" / "mcp_config.json").read_text().replace("0.0.0.0:8080", "0.0.0.0:0")
    (data / "mcp_config.json").write_text(settings)
    shutil.copy(source / "config" / "contracts" / "demo.yaml", data / "contracts")
    for path in [data, *data.rglob("*")]:
        _give_to_group(path, 0o2755 if path.is_dir() else 0o644)
    for name in ("prepare.sh", "mcp_config.json", "contracts"):
        (folder / name).symlink_to(f"..data/{name}")
    _give_to_group(folder, 0o2777)
    return folder


def _secret(folder: Path) -> Path:
    data = folder / "..data"
    data.mkdir(parents=True)
    for name in ("admin.key", "sealing.key"):
        (data / name).write_text(KEY)
        _give_to_group(data / name, 0o440)
        (folder / name).symlink_to(f"..data/{name}")
    _give_to_group(data, 0o2755)
    _give_to_group(folder, 0o2777)
    return folder


def _prepare(config: Path, keys: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Runs the init container's command as its user."""
    return subprocess.run(
        ["sh", config / "prepare.sh"],
        env={"PATH": os.environ["PATH"], "CONFIG": str(config), "KEYS": str(keys), "DATA": str(home)},
        **AS_USER,
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
    )


def _serves(program: Path, home: Path, url: str) -> None:
    log = home / "gateway.log"
    with log.open("wb") as out:
        child = subprocess.Popen(
            [program, "serve"],
            env={"MCPPROXY_HOME": str(home), "DATABASE_URL": url},
            **AS_USER,
            stdout=out,
            stderr=out,
            cwd="/",
        )

    def port() -> str | None:
        assert child.poll() is None, log.read_text()
        found = re.search(r"listens on http://0\.0\.0\.0:(\d+)", log.read_text())
        return found[1] if found else None

    try:
        address = f"http://127.0.0.1:{until(port, 20, 'the gateway listens')}"
        # As the probes of the manifests ask: with the Host header that they set.
        (host,) = set(re.findall(r'name: Host, value: "(.*)"', (PACKAGING / "kubernetes/statefulset.yaml").read_text()))
        host = host.replace("8080", address.rpartition(":")[2])

        def probe(path: str, host: str) -> int:
            return httpx.get(address + path, headers={"Host": host}, timeout=10).status_code

        until(lambda: probe("/readyz", host) == 200, 5, "the gateway is ready")
        assert probe("/healthz", host) == 200
        child.terminate()
        assert child.wait(60) == 0, log.read_text()
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
