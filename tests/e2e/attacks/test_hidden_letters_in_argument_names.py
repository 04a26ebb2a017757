"""The form for a standing approval shows invisible characters in names of arguments as escapes."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator

import pytest

from approvals import Ada, House, code, house_with_ada

# The first character reverses the rest of the line, and the second is invisible.
NAME = "am\u202etnuo\u200b"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Ada]]:
    yield from house_with_ada(tmp_path_factory.mktemp("hidden"))


def test_the_suggested_schema_hides_no_letter(home: tuple[House, Ada]) -> None:
    house, ada = home
    agent = house.in_a_hurry()
    args = {**house.fresh(), NAME: f"x\u202ey"}
    approval = agent.asks("update_customer", args)
    page = ada.http.get(f"{house.gateway.base}/ui/approvals/{approval}", headers=ada._headers())
    assert page.status_code == 200, page.text[:500]
    (shown,) = re.findall(r"<textarea[^>]*name=\"schema\"[^>]*>(.*?)</textarea>", page.text, re.DOTALL)
    schema = html.unescape(shown)
    assert "\u202e" not in schema and "\u200b" not in schema, ascii(schema)
    assert r"am\u202etnuo\u200b" in schema, schema
    assert NAME in json.loads(schema)["properties"], "it stays the same name"
    wish = {"from": approval, "schema": schema, "minutes": 15, "uses": 1, "totp": ada.code()}
    created = ada.post("/grants", wish)
    assert created.status_code in (200, 201), created.text
    assert code(agent.call("update_customer", args)) == "ok", "it covers the call it was made from"
