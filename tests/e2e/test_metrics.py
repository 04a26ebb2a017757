"""Metrics agree with the records, have bounded labels, and are read by a strict parser."""

from __future__ import annotations

import json
import re
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import peers
from approvals import Ada, House, code, house_with_ada
from gateway import Gateway, until
from wire import MODERN, Wire

SECONDS = 10
OBSERVABILITY = peers.ROOT / "packaging" / "observability"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Ada]]:
    yield from house_with_ada(tmp_path_factory.mktemp("metrics"))


def text(gateway: Gateway) -> str:
    answer = httpx.get(f"{gateway.base}/metrics", headers={"X-API-Key": gateway.admin_key}, timeout=30)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return answer.text


def samples(written: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(written):
        assert family.documentation, f"{family.name} has no help"
        assert family.type in ("counter", "gauge", "histogram"), f"{family.name}: {family.type}"
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"{key} twice"
            found[key] = sample.value
    return found


def scrape(gateway: Gateway) -> Samples:
    return samples(text(gateway))


def value(found: Samples, name: str, **labels: str) -> float:
    return found.get((name, tuple(sorted(labels.items()))), 0)


def rows(found: Samples, name: str) -> dict[tuple[str, ...], float]:
    """Returns the rows of one metric by the values of their labels, in the order of the labels' names."""
    return {tuple(one for _, one in labels): count for (metric, labels), count in found.items() if metric == name}


def of_records(gateway: Gateway) -> Counter[tuple[str, ...]]:
    """Counts the records of calls and refusals as the metric does: outcome, risk, variant."""
    ended = [one for one in gateway.admin("/activity?limit=500")["activities"] if one["type"] in ("call", "refusal")]
    keys = (
        (one["status"], one["risk"] or "none", one["intent_type"] or "none")
        for one in ended
        if one["status"] != "started"
    )
    return Counter(keys)


def test_calls_agree_with_the_records(house: tuple[House, Ada]) -> None:
    where, ada = house
    agent = where.agent()
    assert code(agent.call("echo", {"a": 1}, "read")) == "ok"
    assert code(agent.call("update_customer", {"a": 2}, "read")) != "ok", "the wrong variant"
    assert code(agent.call("missing", {}, "read")) != "ok"
    held = agent.later("update_customer", {"a": 3})
    approval = where.question(agent)["id"]
    assert value(scrape(where.gateway), "mcpproxy_approvals_waiting") == 1
    ada.say_yes(approval)
    assert code(held.result(30)) == "ok"
    refused = agent.later("update_customer", {"a": 4})
    ada.say_no(where.question(agent)["id"])
    assert code(refused.result(30)) != "ok"

    def agree() -> bool:
        return rows(scrape(where.gateway), "mcpproxy_calls_total") == of_records(where.gateway)

    until(agree, SECONDS, "the metrics agree with the records")
    found = scrape(where.gateway)
    counts = rows(found, "mcpproxy_calls_total")
    assert counts[("success", "none", "read")] == 1, counts
    assert counts[("success", "high", "write")] == 1, counts
    assert sum(count for (outcome, *_), count in counts.items() if outcome == "refused") == 3, counts
    assert sum(rows(found, "mcpproxy_refusals_total").values()) == 3
    assert value(found, "mcpproxy_approvals_waiting") == 0
    assert value(found, "mcpproxy_server_calls_total", server="fx", outcome="success") == 2
    assert value(found, "mcpproxy_server_call_seconds_count", server="fx") == 2


def test_stages_are_timed(house: tuple[House, Ada]) -> None:
    where, _ = house
    agent = where.agent()
    before = scrape(where.gateway)
    for number in range(5):
        assert code(agent.call("echo", {"a": number}, "read")) == "ok"
    after = scrape(where.gateway)

    def grown(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    for stage, expected in {"decide": 5, "approve": 0, "open": 5, "forward": 5, "close": 5}.items():
        assert grown("mcpproxy_call_stage_seconds_count", stage=stage) == expected, stage
        assert grown("mcpproxy_call_stage_seconds_bucket", stage=stage, le="+Inf") == expected, stage
    assert grown("mcpproxy_call_seconds_count") == 5
    forward = grown("mcpproxy_call_stage_seconds_sum", stage="forward")
    assert 0 < forward < grown("mcpproxy_call_seconds_sum")


def test_a_server_that_is_down_shows(tmp_path: Path) -> None:
    servers = {
        "fx": peers.fx(tmp_path / "ledger.jsonl"),
        "gone": {"command": "/nonexistent/server", "args": []},
        "off": {"type": "demo", "enabled": False},
    }
    with Gateway(tmp_path / "home", {"mcpServers": servers}) as gateway:
        found = scrape(gateway)
        states = rows(found, "mcpproxy_servers")
        assert states == {
            ("connecting",): 0,
            ("ready",): 1,
            ("waiting",): 1,
            ("disabled",): 1,
            ("misconfigured",): 0,
            ("needs_sign_in",): 0,
        }
        assert rows(found, "mcpproxy_server_up") == {("fx",): 1, ("gone",): 0}
        assert value(found, "mcpproxy_log_up") == 1
        rss = value(found, "process_resident_memory_bytes")
        assert 1 << 20 < rss < 1 << 33, rss
        assert value(found, "mcpproxy_log_commit_seconds_count") > 0
        assert value(found, "mcpproxy_database_bytes") > 0
        assert value(found, "mcpproxy_build_info", version=gateway.admin("/status")["version"]) == 1


def test_agents_cannot_add_labels(house: tuple[House, Ada]) -> None:
    where, _ = house
    wire = Wire(where.gateway.mcp, where.agent().token, MODERN)
    before = {key for key in scrape(where.gateway)}
    for number in range(40):
        invented = f'invented{number}"}} 1\nx'
        arguments = {"name": f"{invented}:{invented}", "args": {}, "intent": {"operation_type": invented}}
        wire.ask("tools/call", {"name": "call_tool_read", "arguments": arguments})
        wire.ask("tools/call", {"name": "call_tool_read", "arguments": {"name": f"fx:{invented}", "args": {}}})
    until(lambda: rows(scrape(where.gateway), "mcpproxy_calls_total") == of_records(where.gateway), SECONDS, "counted")
    written = text(where.gateway)
    assert "invented" not in written
    assert len(set(samples(written)) - before) <= 8, set(samples(written)) - before


def test_only_operators_read_them(house: tuple[House, Ada]) -> None:
    where, _ = house
    gateway = where.gateway

    def status(**headers: str) -> int:
        return httpx.get(f"{gateway.base}/metrics", headers=headers).status_code

    assert status() == 401
    assert status(**{"X-API-Key": "wrong"}) == 401
    assert status(Authorization=f"Bearer {gateway.token}") == 403
    assert status(**{"X-API-Key": gateway.admin_key}) == 200
    assert status(**{"X-API-Key": gateway.admin_key, "Host": "evil.example"}) == 403


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_token_opens_the_metrics_and_nothing_else(tmp_path: Path) -> None:
    settings = {"mcpServers": {"demo": {"type": "demo"}}, "metrics": {"token": "${env:SCRAPE_TOKEN}"}}
    gateway = Gateway(tmp_path / "home", settings)
    gateway.start(SCRAPE_TOKEN="a-token-for-prometheus")
    try:
        bearer = {"Authorization": "Bearer a-token-for-prometheus"}
        assert httpx.get(f"{gateway.base}/metrics", headers=bearer).status_code == 200
        assert httpx.get(f"{gateway.base}/metrics", headers={"Authorization": "Bearer a-token"}).status_code == 403
        assert httpx.get(f"{gateway.base}/api/v1/status", headers=bearer).status_code == 403
        assert httpx.post(gateway.mcp, headers=bearer, json={}).status_code == 401
    finally:
        gateway.stop()


def test_an_address_of_their_own(tmp_path: Path) -> None:
    port = free_port()
    settings: dict[str, Any] = {"mcpServers": {"demo": {"type": "demo"}}, "metrics": {"listen": f"127.0.0.1:{port}"}}
    with Gateway(tmp_path / "home", settings) as gateway:
        own = f"http://127.0.0.1:{port}"
        assert value(samples(httpx.get(f"{own}/metrics").text), "mcpproxy_log_up") == 1
        assert httpx.get(f"{own}/metrics", headers={"Host": "evil.example"}).status_code == 403
        assert [httpx.get(own + path).status_code for path in ("/", "/api/v1/status", "/mcp", "/ui/")] == [404] * 4
        key = {"X-API-Key": gateway.admin_key}
        elsewhere = httpx.get(f"{gateway.base}/metrics", headers=key)
        assert (elsewhere.status_code, elsewhere.json()["error"]["code"]) == (404, "metrics_elsewhere"), elsewhere.text
        assert f"http://127.0.0.1:{port}/metrics" in elsewhere.text


def test_an_open_address_needs_a_token(tmp_path: Path) -> None:
    port = free_port()
    settings: dict[str, Any] = {"mcpServers": {"demo": {"type": "demo"}}, "metrics": {"listen": f"0.0.0.0:{port}"}}
    gateway = Gateway(tmp_path / "home", settings)
    done = gateway.run("config", "check")
    assert done.returncode != 0 and "add `metrics.token`" in done.stderr + done.stdout, done
    settings["metrics"]["token"] = "a-token-for-prometheus"
    gateway.write_settings(settings)
    with gateway:
        own = f"http://127.0.0.1:{port}/metrics"
        assert httpx.get(own).status_code == 401
        assert httpx.get(own, headers={"X-API-Key": gateway.admin_key}).status_code == 401
        bearer = {"Authorization": "Bearer a-token-for-prometheus", "Host": "scraped.internal"}
        assert httpx.get(own, headers=bearer).status_code == 200


def test_off_means_off(tmp_path: Path) -> None:
    settings = {"mcpServers": {"demo": {"type": "demo"}}, "metrics": {"enabled": False}}
    with Gateway(tmp_path / "home", settings) as gateway:
        answer = httpx.get(f"{gateway.base}/metrics", headers={"X-API-Key": gateway.admin_key})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "metrics_off"), answer.text
        gateway.write_settings({**settings, "metrics": {}})
        assert gateway.run("config", "reload").returncode in (0, 2)
        until(lambda: httpx.get(f"{gateway.base}/metrics", headers={"X-API-Key": gateway.admin_key}).status_code == 200,
              SECONDS, "metrics are on again")


def families(written: str) -> set[str]:
    return set(re.findall(r"^# TYPE (\S+) ", written, re.MULTILINE))


def named(expression: str) -> set[str]:
    names = set(re.findall(r"\b(?:mcpproxy|process)_[a-z_]+", expression))
    return {re.sub(r"_(?:bucket|sum|count)$", "", name) if name.endswith(("_bucket", "_sum", "_count")) else name
            for name in names}


def test_files_for_grafana_and_prometheus_name_what_exists(house: tuple[House, Ada]) -> None:
    where, _ = house
    exist = families(text(where.gateway))
    dashboard = json.loads((OBSERVABILITY / "grafana-dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert len(expressions) > 15
    alerts = (OBSERVABILITY / "prometheus-alerts.yaml").read_text()
    for expression in [*expressions, *re.findall(r"^\s+expr: (.*)$", alerts, re.MULTILINE)]:
        assert named(expression) and named(expression) <= exist, f"{expression}: {named(expression) - exist}"
    page = (peers.ROOT / "docs" / "metrics.md").read_text()
    listed = set(re.findall(r"^\| `((?:mcpproxy|process)_[a-z_]+)`", page, re.MULTILINE))
    assert listed == exist, listed ^ exist
