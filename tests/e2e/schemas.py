"""Generates values from JSON Schemas, to call tools without handwritten arguments."""

from __future__ import annotations

from typing import Any

FORMATS = {"email": "ada@example.com", "date": "2026-01-31", "date-time": "2026-01-31T10:00:00Z"}


def sample(schema: dict[str, Any]) -> Any:
    """Returns a value that the schema accepts, with the required properties only."""
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: sample(properties.get(name, {})) for name in schema.get("required", [])}
    if kind == "array":
        return [sample(schema.get("items", {}))] * max(1, schema.get("minItems", 1))
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    if kind == "boolean":
        return False
    return FORMATS.get(schema.get("format", ""), "x" * max(3, schema.get("minLength", 0)))


def filled(schema: dict[str, Any]) -> dict[str, Any]:
    """Fills in a form with every default, and with yes where there is none."""
    properties = schema.get("properties", {})
    return {
        name: one.get("default", True if one.get("type") == "boolean" else sample(one))
        for name, one in properties.items()
    }
