"""Dry runs: they send nothing that changes data, and a required dry run cannot be skipped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import peers
from approvals import House, code, details, error, said
from clients import ALL_KINDS, Kind, call, play
from gateway import Gateway
from user import Browser, User, setup_link
from test_agents import create
from wire import LEGACY, MODERN, Wire

ERAS = [LEGACY, MODERN]
CAMPAIGN = {"templateId": "tmpl_newsletter_q3", "segmentId": "seg_active_customers"}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    one = House(tmp_path_factory.mktemp("dry"))
    with one.gateway:
        yield one


def preview(result: dict[str, Any]) -> dict[str, Any]:
    assert not result.get("isError"), result
    return result["structuredContent"]


@pytest.mark.parametrize("era", ERAS)
def test_the_servers_own_dry_run(house: House, era: str) -> None:
    """The contract names a parameter of the server. The gateway sets it, so agents need not know it."""
    agent, args = house.agent("--headless", era=era), {"segment": "s1", **house.fresh()}
    refused = agent.call("bulk_send", args)
    assert code(refused) == "dry_run_required"
    following = details(refused)["next"]
    assert following["tool"] == "call_tool_destructive"
    assert following["arguments"] == {
        "name": "fx:bulk_send",
        "args_json": following["arguments"]["args_json"],
        "dry_run": True,
    }
    assert json.loads(following["arguments"]["args_json"]) == args
    tried = agent.call("bulk_send", args, dry_run=True)
    assert said(tried) == {"wouldSend": {**args, "dryRun": True}}
    assert house.executed("bulk_send").count(args) == 0
    for other in ({**args, "segment": "s2"}, {**args, "id": float(args["id"])}, {}):
        assert code(agent.call("bulk_send", other)) == "dry_run_required", "a dry run is for exactly these arguments"
    stranger = house.in_a_hurry()
    assert code(stranger.call("bulk_send", args)) == "dry_run_required", "and for one agent"
    assert said(agent.call("bulk_send", dict(reversed(args.items())))) == args
    assert house.executed("bulk_send").count(args) == 1


@pytest.mark.parametrize("era", ERAS)
def test_the_next_call_can_be_made_as_it_is_given(house: House, era: str) -> None:
    agent, args = house.agent("--headless", era=era), {"segment": "s3", **house.fresh()}
    following = details(agent.call("bulk_send", args))["next"]
    params = {"name": following["tool"], "arguments": following["arguments"]}
    assert not agent.wire.ask("tools/call", params).get("isError")
    assert said(agent.call("bulk_send", args)) == args


def test_a_preview_from_the_contract(house: House) -> None:
    """The server has no dry run, so the gateway sends it nothing."""
    agent, args = house.in_a_hurry(), house.fresh()
    assert code(agent.call("create_note", args)) == "dry_run_required"
    shown = preview(agent.call("create_note", args, dry_run=True))
    assert shown["dryRun"] is True and shown["wouldCall"]["arguments"] == args
    assert shown["expectedSideEffects"] == ["A note is created."]
    assert shown["missingPermissions"] == []
    assert house.arrived("create_note") == []
    assert said(agent.call("create_note", args)) == args
    # The server does not support dry runs, so the parameter is never sent to it.
    assert "dryRun" not in house.arrived("create_note")[-1]["line"]


def test_a_dry_run_asks_no_user_and_names_what_is_missing(house: House) -> None:
    shown = preview(house.in_a_hurry().call("update_customer", house.fresh(), dry_run=True))
    assert "confirmation" in shown["needs"] and shown["wouldCall"]["tool"] == "fx:update_customer"
    assert house.arrived("update_customer") == []


def test_an_agent_that_sets_the_parameter_itself(house: House) -> None:
    agent, args = house.in_a_hurry(), {"segment": "s4", **house.fresh()}
    tried = agent.call("bulk_send", {**args, "dryRun": True})
    assert said(tried)["wouldSend"]["segment"] == "s4"
    assert house.executed("bulk_send").count(args) == 0
    assert said(agent.call("bulk_send", args)) == args
    # `false` is not a dry run.
    other = {**args, **house.fresh(), "dryRun": False}
    assert code(agent.call("bulk_send", other)) == "dry_run_required"


def test_a_dry_run_of_ten_minutes_ago_is_stale(house: House) -> None:
    agent, args = house.in_a_hurry(), {"segment": "s5", **house.fresh()}
    agent.call("bulk_send", args, dry_run=True)
    house.storage.sql(house.gateway.home, "UPDATE dry_runs SET at_ms = at_ms - 601000")
    assert code(agent.call("bulk_send", args)) == "dry_run_required"
    agent.call("bulk_send", args, dry_run=True)
    assert code(agent.call("bulk_send", args)) == "ok"


def test_missing_permissions_are_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Gateway(tmp_path_factory.mktemp("poor")) as gateway:
        wire = Wire(gateway.mcp, create(gateway, "poor"), MODERN)
        arguments = {"name": "demo:emails.bulk_send", "args": CAMPAIGN, "dry_run": True}
        shown = preview(wire.ask("tools/call", {"name": "call_tool_destructive", "arguments": arguments}))
        assert shown["missingPermissions"] == ["emails:bulk_send", "segments:read", "templates:read"]
        arguments.pop("dry_run")
        refused = wire.ask("tools/call", {"name": "call_tool_destructive", "arguments": arguments})
        assert code(refused) == "permission_denied"


# -- the demo server's newsletter -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ALL_KINDS[0], ALL_KINDS[-1]], ids=str)
def test_a_newsletter_needs_its_dry_run_and_then_a_user(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser, kind: Kind
) -> None:
    folder: Path = tmp_path_factory.mktemp("newsletter")
    demo = {"command": str(peers.BUILD / "demo-server"), "args": []}
    record = folder / "sent.jsonl"
    settings = {"mcpServers": {"demo": peers.tapped(demo, record)}, "approvals": {"wait": "0s"}}

    def sent() -> list[dict[str, Any]]:
        messages = [json.loads(line) for line in record.read_text().splitlines()]
        calls = [one["params"] for one in messages if one.get("method") == "tools/call"]
        return [one["arguments"] for one in calls if one["name"] == "emails.bulk_send"]

    def send(**more: Any) -> dict[str, Any]:
        one = call("call_tool_destructive", {"name": "demo:emails.bulk_send", "args": CAMPAIGN, **more})
        return play(kind, gateway.mcp, gateway.token, [one]).results[0]

    with Gateway(folder / "home", settings) as gateway, User(browser, gateway) as ada:
        ada.set_up(setup_link(gateway))
        assert error(send())["code"] == "dry_run_required" and sent() == []
        assert not send(dry_run=True).get("isError")
        assert sent() == [{**CAMPAIGN, "dryRun": True}]
        asked = details(send())
        ada.open(asked["approve_url"])
        assert "dry run" in ada.text.lower() or "preview" in ada.text.lower(), "the user sees what would happen"
        ada.approve("totp")
        assert not send(approval_id=asked["approval_id"]).get("isError")
        assert [one for one in sent() if not one.get("dryRun")] == [CAMPAIGN]
