"""Three gateways that share a PostgreSQL database, behind nginx, which sends each request to the next gateway.

All gateways have a server `fx` of their own, and these write one ledger: a line for each call that arrived, on disk before
the answer. nginx keeps no sessions and repeats no request that a gateway may have received.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

import peers  # noqa: E402
from approvals import Ada  # noqa: E402
from gateway import Gateway, until  # noqa: E402
from log import PostgresStorage  # noqa: E402
from postgres import Postgres  # noqa: E402
from user import set_up_plainly  # noqa: E402

GATEWAYS = 3
LIMIT = 12
CONTRACTS = f"""
- tool: fx:pay
  idempotency: {{ mode: key, ttl: 24h }}
- tool: fx:update_customer
  riskLevel: high
- tool: fx:seldom
  rateLimit: {{ calls: {LIMIT}, per: 1h }}
"""
READY_SECONDS = 30

NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log notice;
{user}
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream gateways {{
{servers}
        keepalive 16;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://gateways;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 120s;
            # The default, written out: a request that a gateway may have received is not sent to another one.
            proxy_next_upstream error timeout;
        }}
    }}
}}
"""


class Fleet:
    """The gateways, their database, nginx, and the ledger of what arrived."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger.jsonl"
        self.postgres = Postgres()
        self.port, *ports = free_ports(1 + GATEWAYS)
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.nginx: subprocess.Popen[bytes] | None = None
        self.gateways: list[Gateway] = []
        self.ports = ports

    @property
    def gateway(self) -> Gateway:
        return self.gateways[0]

    def start(self) -> Fleet:
        self.postgres.start()
        self.storage = PostgresStorage(self.postgres, self.postgres.create())
        for number, port in enumerate(self.ports):
            gateway = Gateway(self.folder / f"gateway-{number}", self.settings())
            gateway.listen = f"127.0.0.1:{port}"
            gateway.write("contracts/fx.yaml", CONTRACTS)
            if number:
                for key in ("admin.key", "sealing.key"):
                    if (self.gateway.home / key).exists():
                        shutil.copy(self.gateway.home / key, gateway.home / key)
            self.gateways.append(gateway.start())
        self.start_nginx()
        for gateway in self.gateways:
            gateway.connected()
        self.ada = Ada(self, "ada", set_up_plainly(self.gateway, "ada"))
        return self

    def settings(self) -> dict[str, Any]:
        return {
            "mcpServers": {"fx": peers.fx(self.ledger)},
            "allowed_hosts": [f"127.0.0.1:{self.port}"],
            "approvals": {"wait": "1s"},
            "trust": {"first_sight": "accept"},
            **self.storage.settings(),
        }

    def stop(self) -> None:
        for gateway in self.gateways:
            gateway.stop()

    def remove(self) -> None:
        """Ends everything that is still there, also after a failure."""
        for gateway in self.gateways:
            if gateway.child is not None and gateway.child.poll() is None:
                gateway.child.kill()
                gateway.child.wait()
        if self.nginx is not None:
            self.nginx.terminate()
            self.nginx.wait(30)
        self.postgres.remove()

    def complaints(self) -> list[str]:
        """Returns what nginx said about gateways that did not answer."""
        lines = (self.folder / "nginx.log").read_text(errors="replace").splitlines()
        return [line for line in lines if "[error]" in line or "[crit]" in line]

    # -- trouble --------------------------------------------------------------------------------------------------

    def kill(self, number: int) -> None:
        """Ends a gateway as a power failure does. Its servers notice that it is gone."""
        gateway = self.gateways[number]
        assert gateway.child is not None
        gateway.child.send_signal(signal.SIGKILL)
        gateway.child.wait(60)
        gateway.child = None
        until(lambda: not gateway.processes(), 10, "every server noticed that its gateway is gone")

    def restart(self, number: int) -> None:
        """Stops a gateway as a service manager does, and starts it again."""
        self.gateways[number].stop()
        self.gateways[number].start().connected()

    def all_ready(self) -> None:
        for gateway in self.gateways:
            until(lambda gateway=gateway: gateway.probe("/readyz") == 200, READY_SECONDS, "every gateway is ready")
            gateway.connected()

    # -- agents and what arrived ----------------------------------------------------------------------------------

    def token(self, name: str, *options: str) -> str:
        done = self.gateway.run("token", "create", name, "--grant", "*", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def arrived(self, tool: str) -> Counter[int]:
        """Counts how often each number of a tool's calls arrived at a server."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        calls = [json.loads(line) for line in lines]
        return Counter(call["arguments"]["n"] for call in calls if call["name"] == tool)

    # -- details --------------------------------------------------------------------------------------------------

    def start_nginx(self) -> None:
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        assert os.access(program, os.X_OK), "nginx is missing; scripts/setup installs it"
        # A gateway that does not accept connections is left out for a second.
        lines = [f"        server 127.0.0.1:{port} max_fails=1 fail_timeout=1s;" for port in self.ports]
        # Started as root, the workers would otherwise become another user, who cannot write to the folder.
        user = "user root;" if os.geteuid() == 0 else ""
        conf = self.folder / "nginx.conf"
        conf.write_text(NGINX.format(folder=self.folder, port=self.port, servers="\n".join(lines), user=user))
        self.nginx = subprocess.Popen([program, "-c", conf, "-e", self.folder / "nginx.log"], stdin=subprocess.DEVNULL)
        until(self._answers, 20, "nginx answers")

    def _answers(self) -> bool:
        assert self.nginx is not None and self.nginx.poll() is None, (self.folder / "nginx.log").read_text()
        with socket.socket() as attempt:
            return attempt.connect_ex(("127.0.0.1", self.port)) == 0


def free_ports(count: int) -> list[int]:
    """Returns ports that are free now. Gateways keep theirs over a restart, so nginx can name them."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
