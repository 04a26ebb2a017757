"""Invalid input: each case gets the right error, and nothing reaches a server."""

from __future__ import annotations

import json
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import peers
from gateway import Gateway, until
from wire import ACCEPT, LEGACY, MODERN, Wire, messages

ROWS = [json.loads(line) for line in (peers.HERE / "data" / "bad-inputs.jsonl").read_text().splitlines()]
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
SLOW_CONNECTIONS = 100
HEADER_SECONDS = 10
SELDOM = 3
CONTRACTS = f"""
- tool: fx:read_password
  riskLevel: forbidden
- tool: fx:bulk_send
  dryRun: required
- tool: fx:seldom
  rateLimit: {{ calls: {SELDOM}, per: 1h }}
- tool: fx:update_customer
  riskLevel: high
- tool: fx:pay
  idempotency: key
"""


def rows(surface: str, *, with_body: bool = True) -> list[Any]:
    found = [row for row in ROWS if row["surface"] == surface and ("body" in row) == with_body]
    return [pytest.param(row, id=row["id"]) for row in found]


class Fx:
    """A gateway in front of the server `fx`, whose ledger lists the calls that reached it."""

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "ledger.jsonl"
        settings = {"mcpServers": {"fx": peers.fx(self.ledger)}, "approvals": {"wait": "0s"}}
        self.gateway = Gateway(folder / "home", settings)
        self.gateway.write("contracts/fx.yaml", CONTRACTS)

    def calls(self) -> int:
        return len(self.ledger.read_text().splitlines())

    def post(self, body: bytes | Iterator[bytes], **changes: str | None) -> httpx.Response:
        headers = {
            "Authorization": f"Bearer {self.gateway.token}",
            "Content-Type": "application/json",
            "Accept": ACCEPT,
            **{name.replace("_", "-"): value for name, value in changes.items()},
        }
        # `None` removes a header. httpx would restore its own `Accept`, so an empty one stands for none.
        kept = {name: value if value is not None else "" for name, value in headers.items()}
        return httpx.post(self.gateway.mcp, content=body, headers=kept, timeout=60)

    def raw(self, text: bytes) -> tuple[bytes, bool]:
        """Sends raw bytes. Returns the answer, and whether the gateway closed the connection."""
        with self.connect() as connection:
            connection.sendall(text)
            return read_to_end(connection)

    def connect(self) -> socket.socket:
        host, port = self.gateway.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=HEADER_SECONDS * 3)

    def head(self, **headers: str) -> str:
        lines = {
            "Host": self.gateway.address,
            "Authorization": f"Bearer {self.gateway.token}",
            "Content-Type": "application/json",
            "Accept": ACCEPT,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return "POST /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"


@pytest.fixture(scope="module")
def fx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fx]:
    one = Fx(tmp_path_factory.mktemp("fx"))
    with one.gateway:
        yield one


def check(row: dict[str, Any], answer: httpx.Response) -> None:
    """Compares status, JSON-RPC code and message with the row."""
    said = f"{answer.status_code} {answer.text[:600]}"
    if "status" in row:
        assert answer.status_code == row["status"], said
    if isinstance(row.get("code"), int):
        assert messages(answer)[0]["error"]["code"] == row["code"], said


def words(answer: httpx.Response) -> str:
    """Returns the text of an answer without JSON escapes."""
    return answer.text.replace('\\"', '"')


# -- request bodies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", rows("mcp-http"))
def test_bad_message(fx: Fx, row: dict[str, Any]) -> None:
    before = fx.calls()
    if isinstance(row["code"], str):
        refused(fx, row)
    else:
        answer = fx.post(row["body"].encode())
        check(row, answer)
        assert row.get("says", "") in words(answer)
    assert fx.calls() == before, "the call reached the server"


@pytest.mark.parametrize("row", rows("mcp"))
def test_bad_call(fx: Fx, row: dict[str, Any]) -> None:
    before = fx.calls()
    refused(fx, row)
    assert fx.calls() == before + (1 if row["code"] is None else 0)


def refused(fx: Fx, row: dict[str, Any]) -> None:
    """Sends the row as a call in both eras. The answer must be the same."""
    params = json.loads(row["body"])["params"]
    eras = [LEGACY, MODERN] if row["code"] is not None else [MODERN]
    for era in eras:
        result = Wire(fx.gateway.mcp, fx.gateway.token, era).ask("tools/call", params)
        if row["code"] is None:
            assert not result.get("isError") and "error" not in result, result
        elif isinstance(row["code"], int):
            assert result["error"]["code"] == row["code"], result
            assert row["says"] in result["error"]["message"], result
        else:
            error = result["structuredContent"]["error"]
            assert result["isError"] is True
            assert error["code"] == row["code"], result
            assert row.get("says", "") in error["message"], result
            assert result["content"][0]["text"] == error["message"]


@pytest.mark.parametrize("row", rows("mcp", with_body=False))
def test_one_call_too_many(fx: Fx, row: dict[str, Any]) -> None:
    before = fx.calls()
    wire = Wire(fx.gateway.mcp, fx.gateway.token, MODERN)
    params = {"name": "call_tool_read", "arguments": {"name": "fx:seldom", "args": {}}}
    results = [wire.ask("tools/call", params) for _ in range(SELDOM + 1)]
    assert [result.get("isError", False) for result in results] == [False] * SELDOM + [True]
    error = results[-1]["structuredContent"]["error"]
    assert error["code"] == row["code"] and row["says"] in error["message"]
    assert 0 < error["details"]["retry_after_ms"] <= 3_600_000
    assert fx.calls() == before + SELDOM, "the refused call reached the server"
    # A refusal is answered before it is on disk.
    (record,) = until(lambda: fx.gateway.records("--tool", "seldom", "--status", "refused"), 5, "the refusal")
    assert record["code"] == row["code"]


# -- rows that need more than a body ----------------------------------------------------------------------------


@pytest.mark.parametrize("row", rows("mcp-http", with_body=False) + rows("http", with_body=False))
def test_bad_request(fx: Fx, row: dict[str, Any]) -> None:
    before = fx.calls()
    SPECIAL[row["id"]](fx, row)
    assert fx.calls() == before, "a call reached the server"


def empty_body(fx: Fx, row: dict[str, Any]) -> None:
    answer = fx.post(b"")
    check(row, answer)
    assert row["says"] in words(answer)


def deep_nesting(fx: Fx, row: dict[str, Any]) -> None:
    deep = "[" * 65 + "]" * 65
    params = f'{{"name":"call_tool_read","arguments":{{"name":"fx:echo","args":{{"a":{deep}}}}}}}'
    answer = fx.post(f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'.encode())
    check(row, answer)
    assert row["says"] in words(answer)


def one_byte_too_long(fx: Fx, row: dict[str, Any]) -> None:
    frame = len(json.dumps({**LIST, "params": {"x": ""}}))
    body = json.dumps({**LIST, "params": {"x": "a" * (4 * 1024 * 1024 + 1 - frame)}}).encode()
    assert len(body) == 4 * 1024 * 1024 + 1
    answer = fx.post(body)
    check(row, answer)
    assert row["says"] in words(answer)


def endless_chunks(fx: Fx, row: dict[str, Any]) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    sent = 0
    with fx.connect() as connection:
        connection.sendall(fx.head(Transfer_Encoding="chunked").encode())
        try:
            while sent < 64 * 1024 * 1024:
                connection.sendall(chunk)
                sent += len(chunk)
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            answer, _closed = read_to_end(connection)
        except ConnectionResetError:
            answer = b""
    # The kernel's buffers on both sides hold a few MiB beyond what the gateway read.
    assert sent < 16 * 1024 * 1024, f"{sent} bytes went through"
    if answer:
        assert answer.startswith(b"HTTP/1.1 413"), answer[:200]


def not_utf8(fx: Fx, row: dict[str, Any]) -> None:
    answer = fx.post(b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"\xff"}}')
    check(row, answer)
    assert row["says"] in words(answer)


def byte_order_mark(fx: Fx, row: dict[str, Any]) -> None:
    check(row, fx.post(b"\xef\xbb\xbf" + json.dumps(LIST).encode()))


def wrong_content_type(fx: Fx, row: dict[str, Any]) -> None:
    answer = fx.post(json.dumps(LIST).encode(), Content_Type="text/plain")
    check(row, answer)
    assert row["says"] in words(answer)


def wrong_accept(fx: Fx, row: dict[str, Any]) -> None:
    answer = fx.post(json.dumps(LIST).encode(), Accept="text/html")
    check(row, answer)
    assert "application/json" in answer.text and "text/event-stream" in answer.text
    body = json.dumps(LIST).encode()
    head = fx.head(Content_Length=str(len(body)), Connection="close").replace(f"Accept: {ACCEPT}\r\n", "")
    raw, _closed = fx.raw(head.encode() + body)
    assert raw.startswith(b"HTTP/1.1 406"), raw[:200]


def get_and_delete(fx: Fx, row: dict[str, Any]) -> None:
    headers = {"Authorization": f"Bearer {fx.gateway.token}", "Accept": ACCEPT, "MCP-Protocol-Version": MODERN}
    for method in ("GET", "DELETE"):
        answer = httpx.request(method, fx.gateway.mcp, headers=headers, timeout=60)
        assert (answer.status_code, answer.headers.get("allow")) == (405, "POST"), method


def unknown_version(fx: Fx, row: dict[str, Any]) -> None:
    answer = fx.post(json.dumps(LIST).encode(), MCP_Protocol_Version="1999-01-01")
    check(row, answer)
    supported = messages(answer)[0]["error"]["data"]["supported"]
    assert {"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} <= set(supported)


def no_version_in_meta(fx: Fx, row: dict[str, Any]) -> None:
    wire = Wire(fx.gateway.mcp, fx.gateway.token, MODERN)
    message = wire.message("tools/list")
    del message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"]
    answer = wire.post(message)
    check(row, answer)
    assert row["says"] in words(answer)


def foreign_origin(fx: Fx, row: dict[str, Any]) -> None:
    headers = {"Origin": "https://evil.example", "X-API-Key": fx.gateway.admin_key}
    for answer in (
        fx.post(json.dumps(LIST).encode(), Origin="https://evil.example"),
        fx.post(b"not json at all", Origin="https://evil.example"),
        httpx.get(f"{fx.gateway.base}/api/v1/status", headers=headers, timeout=60),
    ):
        check(row, answer)
        assert row["says"] in words(answer)


def foreign_host(fx: Fx, row: dict[str, Any]) -> None:
    port = fx.gateway.address.rsplit(":", 1)[1]
    for host in ("evil.example:8080", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}"):
        for answer in (
            fx.post(json.dumps(LIST).encode(), Host=host),
            httpx.get(f"{fx.gateway.base}/api/v1/status", headers={"Host": host}, timeout=60),
        ):
            check(row, answer)
            assert row["says"] in words(answer)


def two_lengths(fx: Fx, row: dict[str, Any]) -> None:
    chunked = b"4\r\n{}  \r\n0\r\n\r\n"
    raw, closed = fx.raw(fx.head(Content_Length="4", Transfer_Encoding="chunked").encode() + chunked)
    assert raw.startswith(b"HTTP/1.1 400"), raw[:200]
    assert closed


def slow_headers(fx: Fx, row: dict[str, Any]) -> None:
    slow = [fx.connect() for _ in range(SLOW_CONNECTIONS)]
    began = time.monotonic()
    try:
        for connection in slow:
            connection.sendall(b"P")
        wire = Wire(fx.gateway.mcp, fx.gateway.token, MODERN)
        # If requests waited for the slow connections, all of them would. A standstill of the machine delays one.
        usual = statistics.median(_seconds(lambda: wire.ask("tools/list")) for _ in range(50))
        assert usual < 1, f"a request takes {usual:.2f} s beside {SLOW_CONNECTIONS} slow connections"
        for connection in slow:
            _, closed = read_to_end(connection)
            assert closed
        assert time.monotonic() - began < HEADER_SECONDS * 2
    finally:
        for connection in slow:
            connection.close()


SPECIAL: dict[str, Callable[[Fx, dict[str, Any]], None]] = {
    "B001": empty_body,
    "B012": deep_nesting,
    "B014": one_byte_too_long,
    "B015": endless_chunks,
    "B016": not_utf8,
    "B018": byte_order_mark,
    "B026": wrong_content_type,
    "B027": wrong_accept,
    "B028": get_and_delete,
    "B029": unknown_version,
    "B033": no_version_in_meta,
    "B034": foreign_origin,
    "B036": foreign_host,
    "B039": two_lengths,
    "B040": slow_headers,
}


def read_to_end(connection: socket.socket) -> tuple[bytes, bool]:
    """Reads until the other side closes. A timeout means that it did not."""
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except TimeoutError:
        return received, False
    except ConnectionResetError:
        return received, True
    return received, True


def _seconds(run: Callable[[], object]) -> float:
    began = time.monotonic()
    run()
    return time.monotonic() - began


# -- credentials ------------------------------------------------------------------------------------------------


def test_no_access_without_a_token(fx: Fx) -> None:
    body = json.dumps(LIST).encode()
    for header in (None, "Bearer nonsense", f"Bearer {fx.gateway.admin_key}", f"Basic {fx.gateway.token}"):
        for path in ("/mcp", "/mcp/s/fx", "/mcp/direct"):
            headers = {"Content-Type": "application/json", "Accept": ACCEPT}
            if header:
                headers["Authorization"] = header
            answer = httpx.post(fx.gateway.base + path, content=body, headers=headers, timeout=60)
            assert answer.status_code == 401, (header, path, answer.text)


def test_an_agent_is_no_admin(fx: Fx) -> None:
    token = fx.gateway.token
    for headers, status in (({}, 401), ({"X-API-Key": token}, 401), ({"Authorization": f"Bearer {token}"}, 403)):
        for path in ("/status", "/servers", "/tools"):
            answer = httpx.get(f"{fx.gateway.base}/api/v1{path}", headers=headers, timeout=60)
            assert answer.status_code == status, (headers, path)


# -- settings and the command line ------------------------------------------------------------------------------


@pytest.mark.parametrize("row", rows("config", with_body=False))
@pytest.mark.parametrize("command", [["serve", "--listen", "127.0.0.1:0"], ["config", "check"]], ids=["serve", "check"])
def test_bad_settings(tmp_path: Path, row: dict[str, Any], command: list[str]) -> None:
    gateway = Gateway(tmp_path, row["settings"])
    (tmp_path / "mcp_config.json").chmod(int(row.get("mode", "600"), 8))
    done = gateway.run(*command, timeout=60)
    assert done.returncode == row["exit"], done
    assert row["says"] in done.stderr, done.stderr
    assert str(tmp_path / "mcp_config.json") in done.stderr, "the file is not named"
    assert "s3cr3t" not in done.stderr and done.stdout == ""


@pytest.mark.parametrize("row", rows("contract", with_body=False))
@pytest.mark.parametrize(
    ("command", "code"),
    [(["serve", "--listen", "127.0.0.1:0"], 6), (["config", "check"], 6), (["contract", "lint"], 1)],
    ids=["serve", "check", "lint"],
)
def test_bad_contract(tmp_path: Path, row: dict[str, Any], command: list[str], code: int) -> None:
    gateway = Gateway(tmp_path, {"mcpServers": {}})
    gateway.write("contracts/a.yaml", row["contract"])
    done = gateway.run(*command, timeout=60)
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    assert row["says"] in said and f"contracts/a.yaml:{row['at']}" in said, said


@pytest.mark.parametrize("row", rows("cli", with_body=False))
def test_bad_command_line(fx: Fx, tmp_path: Path, row: dict[str, Any]) -> None:
    before = fx.calls()
    gateway = Gateway(tmp_path) if row.get("alone") else fx.gateway
    done = gateway.run(*row["args"], timeout=60)
    assert done.returncode == row["exit"], done
    assert row["says"] in done.stderr, done.stderr
    assert fx.calls() == before
