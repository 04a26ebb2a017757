"""Packages: all are built from the binary under test and tried, and mistakes in their files are found.

`scripts/package --quick` does most of it. The rest shows that its checks can fail, and runs a gateway from volumes with
the owners and modes that Kubernetes gives them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import tomllib
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
    kinds = [".whl", ".deb", ".cdx.json", f"mcpproxy-{version}.tgz", "linux-gnu.tar.gz", "-deploy.tar.gz", "SHA256SUMS"]
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


def test_only_committed_files_are_packed(tmp_path: Path) -> None:
    """Whoever tried Compose in the checkout has secrets there."""
    root, source = tmp_path / "root", tmp_path / "root" / "compose"
    (source / "config").mkdir(parents=True)
    (source / "config" / "mcp_config.json").write_text("{}\n")
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    for secret in (".env", ".env.local", "config/admin.key"):
        (source / secret).write_text("secret\n")

    def packed(target: str, may_differ: bool) -> subprocess.CompletedProcess[str]:
        paths = (str(source), str(tmp_path / target), str(root))
        return python(
            "import manifests, pathlib; source, target, root = map(pathlib.Path, "
            f"{paths!r}); manifests.copy_committed(source, target, {may_differ}, root)"
        )

    done = packed("clean", may_differ=False)
    assert done.returncode == 0, done.stderr
    files = [path.relative_to(tmp_path / "clean") for path in (tmp_path / "clean").rglob("*") if path.is_file()]
    assert files == [Path("config/mcp_config.json")]
    (source / "config" / "mcp_config.json").write_text('{"token": "secret"}\n')
    done = packed("changed", may_differ=False)
    assert done.returncode == 1 and "differ from the last commit" in done.stderr, done.stderr
    assert packed("tried", may_differ=True).returncode == 0


def test_a_wrong_compose_file_is_found(tmp_path: Path) -> None:
    text = (PACKAGING / "compose" / "compose.yaml").read_text()
    wrong = tmp_path / "compose.yaml"
    for old, new in [("stop_grace_period: 30s", "stop_grace: 30s"), ("image: mcpproxy:", "image: mcpproxy:9")]:
        wrong.write_text(text.replace(old, new))
        done = python(f"import manifests, pathlib; manifests.check_compose(pathlib.Path({str(wrong)!r}))")
        assert done.returncode == 1 and "common.Failed" in done.stderr, done.stderr


def failure(code: str) -> str:
    """Returns the message with which a check of the packaging fails, or an empty text if it finds nothing."""
    done = python(f"import common\ntry:\n    {code}\nexcept common.Failed as failure:\n    print('FAILED', failure)")
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("FAILED ")[2]


def test_the_deploy_archive_is_used_alone(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    for folder in ("kubernetes", "compose", "observability", "container"):
        shutil.copytree(PACKAGING / folder, whole / folder)
    (whole / "container" / "mcpproxy").touch()
    needed = ["container/mcpproxy", "container/Dockerfile.binary", "kubernetes/config/mcp_config.json", "kubernetes/prepare.sh"]
    # One process for all, because loading the schemas takes seconds.
    code = f"""
import common, manifests, pathlib
folder = pathlib.Path({str(whole)!r})
manifests.check_archive(folder)
print("FINE")
for name in {needed!r}:
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    try:
        manifests.check_archive(folder)
    except common.Failed as failure:
        print("FAILED", failure)
    (folder / name).write_bytes(content)
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    _, *failed = done.stdout.partition("FINE")[2].split("FAILED ")
    assert len(failed) == len(needed), done.stdout
    assert all(name.removeprefix("kubernetes/") in said for name, said in zip(needed, failed)), failed


DOCKERFILE_MISTAKES = [
    ("USER 65532:65532", "USER 1000:1000"),
    ("--chmod=0700", "--chmod=0755"),
    ("cc-debian12:nonroot", "cc-debian13:nonroot"),
    ('CMD ["serve"]', 'CMD ["status"]'),
]


def test_both_dockerfiles_make_the_same_image(tmp_path: Path) -> None:
    source, binary = (PACKAGING / "container" / name for name in ("Dockerfile", "Dockerfile.binary"))
    wrong = tmp_path / "Dockerfile.binary"
    check = f"import image, pathlib; image.check_files(pathlib.Path({str(source)!r}), pathlib.Path({{!r}}))"
    assert failure(check.format(str(binary))) == ""
    for old, new in DOCKERFILE_MISTAKES:
        assert old in binary.read_text()
        wrong.write_text(binary.read_text().replace(old, new))
        assert "different images" in failure(check.format(str(wrong))), new


@pytest.mark.skipif(not IS_ROOT, reason="only root can become the user of the image")
def test_the_files_of_the_image_serve_as_its_user(tmp_path: Path) -> None:
    _open_to_all(tmp_path)
    code = f"""
import common, image, pathlib
out = pathlib.Path({str(tmp_path)!r})
binary = pathlib.Path({peers.MCPPROXY!r})
release = common.Release(binary, out, common.workspace_version(), (2, 34), True)
context = out / "work" / "container"
image.fill(release, context)
image.try_without_builder(release, context)
for old, new in [("mcpproxy /usr/bin", "mcpprox /usr/bin"), ("--chown=65532:65532 ", "")]:
    file = context / "Dockerfile.binary"
    right = file.read_text()
    file.write_text(right.replace(old, new))
    try:
        image.try_without_builder(release, context)
    except common.Failed as failure:
        print("FAILED", failure)
    file.write_text(right)
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    if "NOT TRIED" in done.stdout:
        pytest.skip(done.stdout)
    served, *failed = done.stdout.split("FAILED ")
    assert "serve as 65532:65532" in served
    assert len(failed) == 2 and "which its context does not have" in failed[0] and "not ready" in failed[1], failed


def test_an_image_from_source_gets_every_file_of_the_build() -> None:
    """Without `.cargo`, it would compile a slower SQLite, and say nothing."""
    let_in = [line.removeprefix("!") for line in (peers.ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"]
    members = tomllib.loads((peers.ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    needed = {".cargo", "Cargo.toml", "Cargo.lock", "docs", "packaging/container/home", *(one.split("/")[0] for one in members)}
    assert needed <= set(let_in), needed - set(let_in)
    assert all((peers.ROOT / path).exists() for path in let_in)


def test_the_bill_of_materials_names_every_file_that_is_compiled_in() -> None:
    done = python("import sbom; print(*(one.folder / name for one in sbom.EMBEDDED for name in one.files), sep='\\n')")
    assert done.returncode == 0, done.stderr
    found = set()
    for source in peers.ROOT.glob("crates/mcpproxy*/src/**/*.rs"):
        for path in re.findall(r'include_bytes!\("([^"]*/data/[^"]*)"\)', source.read_text()):
            found.add(str((source.parent / path).resolve()))
    assert len(found) > 3
    assert found <= set(done.stdout.split()), found - set(done.stdout.split())


def test_wrong_names_of_files_in_the_pages_are_found(tmp_path: Path) -> None:
    names = "['mcpproxy-0.1.0.tgz', 'mcpproxy-0.1.0-py3-none-manylinux_2_34_x86_64.whl', 'mcpproxy_0.1.0_amd64.deb']"
    page = tmp_path / "page.md"
    check = f"import pages, pathlib; pages.check([pathlib.Path(one) for one in {names}], (pathlib.Path({str(page)!r}),))"
    for text, message in [
        ("npm install ./mcpproxy-*.tgz, ./mcpproxy_*.deb, mcpproxy.db, and docker run mcpproxy:0.1.0", ""),
        ("pip install mcpproxy-0.1.0-py3-none-manylinux_2_28_x86_64.whl", "page.md names mcpproxy-0.1.0-py3-none-manylinux_2_28"),
        ("tar -xzf mcpproxy-*-deploy.tar.gz", "page.md names mcpproxy-*-deploy.tar.gz"),
        ("docker run mcpproxy:0.0.9", "page.md names the image of 0.0.9"),
    ]:
        page.write_text(text)
        said = failure(check)
        assert said.startswith(message) and bool(said) == bool(message), said


def test_cargo_installs_one_program() -> None:
    assert failure("import cargo; cargo.check_programs()") == ""


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


def test_the_ports_of_the_manifests_fit_together() -> None:
    """The schemas accept any number and any name, so a wrong one would leave Prometheus without an answer."""
    settings = (PACKAGING / "kubernetes/config/mcp_config.json").read_text()
    done = python("import json, manifests; print(json.dumps(manifests.documents()))")
    assert done.returncode == 0, done.stderr
    kinds = {(one["kind"], one["metadata"]["name"]): one["spec"] for one in json.loads(done.stdout) if "spec" in one}
    (pod,) = kinds["StatefulSet", "mcpproxy"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in pod["ports"]}
    assert f'"listen": "0.0.0.0:{ports["http"]}"' in settings
    assert f'"metrics": {{ "listen": "0.0.0.0:{ports["metrics"]}"' in settings
    services = [port for (kind, _), spec in kinds.items() if kind == "Service" for port in spec["ports"]]
    rules = kinds["NetworkPolicy", "mcpproxy"]["ingress"]
    assert {port["targetPort"] for port in services} == {port["port"] for rule in rules for port in rule["ports"]} == set(ports)
    read = set(re.findall(r"\$\{env:(\w+)\}", settings))
    assert read == {one["name"] for one in pod["env"] if "valueFrom" in one}


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
    assert "0.0.0.0:9464" in settings
    settings = settings.replace("0.0.0.0:9464", f"0.0.0.0:{_free_port()}")
    (data / "mcp_config.json").write_text(settings)
    shutil.copy(source / "config" / "contracts" / "demo.yaml", data / "contracts")
    for path in [data, *data.rglob("*")]:
        _give_to_group(path, 0o2755 if path.is_dir() else 0o644)
    for name in ("prepare.sh", "mcp_config.json", "contracts"):
        (folder / name).symlink_to(f"..data/{name}")
    _give_to_group(folder, 0o2777)
    return folder


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        return taken.getsockname()[1]


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
            env={"MCPPROXY_HOME": str(home), "DATABASE_URL": url, "METRICS_TOKEN": KEY},
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
        # As the kubelet and Prometheus ask: by the address of the pod.
        pod = {"Host": "10.244.0.7:8080"}

        def probe(path: str) -> int:
            return httpx.get(address + path, headers=pod, timeout=10).status_code

        until(lambda: probe("/readyz") == 200, 5, "the gateway is ready")
        assert probe("/healthz") == 200
        assert probe("/api/v1/status") == 403
        port_of_metrics = re.search(r'"metrics": { "listen": "0\.0\.0\.0:(\d+)"', (home / "mcp_config.json").read_text())[1]
        metrics = f"http://127.0.0.1:{port_of_metrics}/metrics"
        assert httpx.get(metrics, headers=pod, timeout=10).status_code == 401
        answer = httpx.get(metrics, headers={**pod, "Authorization": f"Bearer {KEY}"}, timeout=10)
        assert answer.status_code == 200 and "mcpproxy_build_info" in answer.text, answer.text
        child.terminate()
        assert child.wait(60) == 0, log.read_text()
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
