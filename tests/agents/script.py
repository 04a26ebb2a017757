"""The calls that the scripted model makes, one for each kind of tool."""

from __future__ import annotations

from model import Step

NOTE = {"projectId": "p_website", "title": "Launch on Monday"}
EXPORT = {"dataset": "contacts"}
MAX = {"userId": "u_max"}


def search() -> Step:
    return Step("retrieve_tools", {"query": "list projects, add a note, delete a user"})


def read() -> Step:
    return Step("call_tool_read", {"name": "demo:list_projects", "args": {}})


def write() -> Step:
    return Step("call_tool_write", {"name": "demo:create_note", "args": NOTE})


def critical_write() -> Step:
    return Step("call_tool_write", {"name": "demo:bulk_export", "args": EXPORT, "intent_reason": "Quarterly backup"})


def critical_destructive() -> Step:
    return Step("call_tool_destructive", {"name": "demo:delete_user", "args": MAX, "intent_reason": "Max left"})
