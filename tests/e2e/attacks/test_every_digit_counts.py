"""Conditions compare every digit of a number. 64 bits would round different numbers to the same one."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from approvals import Ada, House, code, house_with_ada

# All of them are the same 64-bit number.
APPROVED = "18446744073709551616"
OTHERS = ["18446744073709551617", "18446744073709552000", "1.8446744073709552e19", "18446744073709551615.5"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Ada]]:
    yield from house_with_ada(tmp_path_factory.mktemp("digits"))


def test_a_standing_approval_covers_only_the_number_in_it(home: tuple[House, Ada]) -> None:
    house, ada = home
    agent = house.in_a_hurry()
    approval = agent.asks("update_customer", house.fresh())
    schema = f'{{"properties": {{"id": {{"const": {APPROVED}}}}}, "required": ["id"]}}'
    wish = {"from": approval, "schema": schema, "minutes": 15, "uses": 3, "totp": ada.code()}
    created = ada.post("/grants", wish)
    assert created.status_code in (200, 201), created.text
    for other in OTHERS:
        assert code(agent.call("update_customer", f'{{"id": {other}}}')) == "confirmation_required", other
    assert code(agent.call("update_customer", f'{{"id": {APPROVED}}}')) == "ok"
    lines = [call["line"] for call in house.arrived("update_customer")]
    assert len(lines) == 1 and APPROVED in lines[0], lines


def test_a_preview_prints_every_digit(home: tuple[House, Ada]) -> None:
    house, _ = home
    agent = house.in_a_hurry()
    preview = agent.call("create_note", f'{{"id": {OTHERS[0]}}}', dry_run=True)
    assert OTHERS[0] in preview["content"][0]["text"], preview


def test_a_contract_with_a_number_that_would_be_rounded_is_refused(home: tuple[House, Ada]) -> None:
    house, _ = home
    schema = {"properties": {"id": {"maximum": 0}}}
    text = json.dumps({"tool": "fx:echo", "inputSchema": schema}).replace(": 0", f": {APPROVED}")
    house.gateway.write("contracts/digits.json", text)
    try:
        checked = house.gateway.run("config", "check")
        assert checked.returncode != 0 and "more digits" in checked.stdout + checked.stderr, checked
    finally:
        (house.gateway.home / "contracts" / "digits.json").unlink()
