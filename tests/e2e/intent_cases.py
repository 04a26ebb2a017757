"""The cases of the intent specification: the declared intent, the settings and the expected outcome."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "two-keys": {"two_key": "required"},
    "lenient": {"strict_server_validation": False},
    "warn": {"unannotated": "warn"},
    "require-write": {"unannotated": "require_write"},
}
OPERATIONS = ["read", "write", "destructive"]
# Tools for every combination of absent, true and false for both hints. See `hints_server.py`.
ANY = [
    "none",
    "read_only",
    "destructive",
    "both",
    "not_read_only",
    "not_destructive",
    "only_reads",
    "only_writes",
    "only_deletes",
]
BIG = 18446744073709551617
EXACT = '{"n": 1.0, "big": 18446744073709551617, "e": 1E+2, "nested": [ -0.0 ]}'
LONG = "a" * 129
SURROGATE = '{"a":"\\ud800"}'


@dataclass(frozen=True)
class Case:
    """One call. With a code it must be refused with exactly this message, otherwise allowed."""

    name: str
    setting: str
    variant: str
    parameters: dict[str, Any]
    code: str | None = None
    says: str = ""
    warns: str | None = None
    verified: bool = True
    suggestions: list[str] | None = field(default=None)

    def __str__(self) -> str:
        return f"{self.setting}: {self.name}"

    @property
    def tool(self) -> str:
        return f"call_tool_{self.variant}"


def server_mismatch(tool: str, used: str, mark: str = "marked destructive", right: str = "destructive") -> str:
    return f"Tool 'hints:{tool}' is {mark} by server, use call_tool_{right} instead of call_tool_{used}"


def sensitivity(word: str) -> str:
    return f"Invalid intent.data_sensitivity '{word}': must be public, internal, private, or unknown"


def operation_type(word: str) -> str:
    return f"Invalid intent.operation_type '{word}': must be read, write, or destructive"


def matrices() -> Iterator[Case]:
    """The rows of both validation matrices, with their names from the specification. In the first matrix the operation
    follows from the variant. In the second it is declared as well."""
    for setting in ("plain", "two-keys"):

        def row(name: str, variant: str, tool: str, setting: str = setting, **outcome: Any) -> Case:
            declared = {"intent": {"operation_type": variant}} if setting == "two-keys" else {}
            label = f'call_tool_{variant} "{variant}" {name}' if declared else f"call_tool_{variant} {name}"
            return Case(label, setting, variant, {"name": f"hints:{tool}", **declared}, **outcome)

        def reject(variant: str) -> dict[str, str]:
            return {"code": "SERVER_MISMATCH", "says": server_mismatch("destructive", variant)}

        yield row("readOnlyHint=true ALLOW", "read", "read_only")
        yield row("destructiveHint=true REJECT", "read", "destructive", **reject("read"))
        yield row("no annotation ALLOW (trust agent)", "read", "none", verified=False)
        yield row("readOnlyHint=true WARN + ALLOW", "write", "read_only", warns="overly_cautious")
        yield row("destructiveHint=true REJECT", "write", "destructive", **reject("write"))
        yield row("no annotation ALLOW", "write", "none", verified=False)
        for tool in ANY:
            yield row(f"any ({tool}) ALLOW (most permissive)", "destructive", tool)
        for used in ("read", "write"):
            says = server_mismatch("both", used)
            yield row("both hints, destructive wins", used, "both", code="SERVER_MISMATCH", says=says)

    for used, declared in (("read", "write"), ("write", "destructive"), ("destructive", "read")):
        says = f"Intent mismatch: tool is call_tool_{used} but intent declares {declared}"
        for tool in ANY:
            parameters = {"name": f"hints:{tool}", "intent": {"operation_type": declared}}
            name = f'call_tool_{used} "{declared}" any ({tool}) REJECT'
            yield Case(name, "two-keys", used, parameters, "INTENT_MISMATCH", says)
    for used in OPERATIONS:
        says = f"intent parameter is required for call_tool_{used}"
        for tool in ("none", "read_only", "destructive", "both"):
            name = f"call_tool_{used} missing any ({tool}) REJECT"
            yield Case(name, "two-keys", used, {"name": f"hints:{tool}"}, "MISSING_INTENT", says)


def second_keys() -> Iterator[Case]:
    """Flat and nested spellings of the second key, alone, together and wrong."""
    mismatch = "Intent mismatch: tool is call_tool_read but intent declares write"
    twice = "Invalid intent: operation_type given twice with different values"
    required = "intent.operation_type is required"
    missing = "intent parameter is required for call_tool_read"
    read, write = {"operation_type": "read"}, {"operation_type": "write"}
    for setting in ("plain", "two-keys"):
        is_plain = setting == "plain"

        def row(name: str, code: str | None, says: str, setting: str = setting, **given: Any) -> Case:
            return Case(name, setting, "read", {"name": "hints:read_only", **given}, code, says)

        yield row("nested matches", None, "", intent=read)
        yield row("flat matches", None, "", intent_operation_type="read")
        yield row("flat and nested match", None, "", intent_operation_type="read", intent=read)
        yield row("nested contradicts", "INTENT_MISMATCH", mismatch, intent=write)
        yield row("flat contradicts", "INTENT_MISMATCH", mismatch, intent_operation_type="write")
        yield row("both contradict", "INTENT_MISMATCH", mismatch, intent_operation_type="write", intent=write)
        yield row("flat against nested", "invalid_intent", twice, intent_operation_type="read", intent=write)
        yield row("nested against flat", "invalid_intent", twice, intent_operation_type="write", intent=read)
        for word in ("unknown", "delete", "Read", "READ", " read", ""):
            says = operation_type(word)
            yield row(f"nested '{word}'", "INVALID_OPERATION_TYPE", says, intent={"operation_type": word})
            yield row(f"flat '{word}'", "INVALID_OPERATION_TYPE", says, intent_operation_type=word)
        empty = (None, "") if is_plain else ("MISSING_OPERATION_TYPE", required)
        yield row("empty intent", *empty, intent={})
        yield row("intent with a reason only", *empty, intent={"reason": "why"})
        yield row("flat reason only", *((None, "") if is_plain else ("MISSING_INTENT", missing)), intent_reason="why")


def words() -> Iterator[Case]:
    """Sensitivity and reason."""

    def row(name: str, code: str | None = None, says: str = "", **given: Any) -> Case:
        return Case(name, "plain", "write", {"name": "hints:only_writes", **given}, code, says)

    for word in ("public", "internal", "private", "unknown"):
        yield row(f"flat sensitivity {word}", intent_data_sensitivity=word)
        yield row(f"nested sensitivity {word}", intent={"operation_type": "write", "data_sensitivity": word})
    for word in ("secret", "Private", "PUBLIC", "private ", ""):
        code, says = "INVALID_SENSITIVITY", sensitivity(word)
        yield row(f"flat sensitivity '{word}'", code, says, intent_data_sensitivity=word)
        nested = {"operation_type": "write", "data_sensitivity": word}
        yield row(f"nested sensitivity '{word}'", code, says, intent=nested)
    too_long = ("REASON_TOO_LONG", "intent.reason exceeds maximum length of 1000 characters")
    for character in ("a", "é", "🙂"):
        most, more = character * 1000, character * 1001
        yield row(f"flat reason of 1000 {character}", intent_reason=most)
        yield row(f"flat reason of 1001 {character}", *too_long, intent_reason=more)
        yield row(f"nested reason of 1000 {character}", intent={"operation_type": "write", "reason": most})
        yield row(f"nested reason of 1001 {character}", *too_long, intent={"operation_type": "write", "reason": more})
    yield row("an empty reason", intent_reason="")
    full = {"operation_type": "write", "data_sensitivity": "private", "reason": "Creating user record"}
    yield row("everything nested", intent=full)
    flat = {f"intent_{name}": value for name, value in full.items()}
    yield row("everything flat", **flat)
    yield row("everything flat and nested", **flat, intent=full)
    for name, other in (("data_sensitivity", "public"), ("reason", "Another")):
        says = f"Invalid intent: {name} given twice with different values"
        yield row(f"{name} flat against nested", "invalid_intent", says, **{f"intent_{name}": other}, intent=full)


def shapes() -> Iterator[Case]:
    """Wrong types, unknown fields, arguments and names."""

    def row(name: str, code: str | None = None, says: str = "", **given: Any) -> Case:
        return Case(name, "plain", "read", {"name": "hints:read_only", **given}, code, says)

    def intent(name: str, says: str, **given: Any) -> Case:
        return row(name, "invalid_intent", f"Invalid intent: {says}", **given)

    def args(name: str, says: str, **given: Any) -> Case:
        return row(name, "invalid_args", f"Invalid arguments: {says}", **given)

    for value in ("read", ["read"], 7, True, None):
        yield intent(f"intent is {value!r}", "intent must be an object", intent=value)
    for name in ("operation_type", "data_sensitivity", "reason"):
        for value in (7, False, ["read"], {}, None):
            says = "must be a string"
            yield intent(f"intent.{name} is {value!r}", f"intent.{name} {says}", intent={name: value})
            yield intent(f"intent_{name} is {value!r}", f"intent_{name} {says}", **{f"intent_{name}": value})

    yield row("args", args={"a": [1, {"b": None}]})
    yield row("args_json", args_json='{"a": [1, {"b": null}]}')
    yield row("exact bytes in args", args={"n": 1.0, "big": BIG})
    yield row("exact bytes in args_json", args_json=EXACT)
    yield args("args is a text", "args must be a JSON object; send JSON text as args_json", args="hello")
    yield args("args is an array", "arguments must be a JSON object", args=[1])
    yield args("args is null", "arguments must be a JSON object", args=None)
    yield args("args_json is null", "args_json must be a string of JSON", args_json=None)
    yield args("args_json is an array", "args_json must be a string of JSON", args_json=[])
    yield args("args and args_json", "args and args_json are mutually exclusive", args={}, args_json="{}")
    yield args("trailing text", "args_json: trailing characters at 1:4", args_json="{} x")
    yield args("two objects", "args_json: trailing characters at 1:4", args_json="{} {}")
    yield args("an array", "arguments must be a JSON object", args_json="[1,2]")
    yield args("a string in args_json", "arguments must be a JSON object", args_json='"{}"')
    yield args("null in args_json", "arguments must be a JSON object", args_json="null")
    yield args("an empty args_json", "args_json: the text is empty at 1:1", args_json="")
    yield args("a lone surrogate", "args_json: lone surrogate at 1:13", args_json=SURROGATE)
    yield args("a lone surrogate in a key", "args_json: lone surrogate at 1:9", args_json='{"\\ud800":1}')
    yield args("no number", "args_json: number out of range at 1:6", args_json='{"a":1e400}')
    yield args("too deep", "args_json: nesting deeper than 64 at 1:65", args_json="[" * 70)
    yield args("a mark", "args_json: byte order mark before the JSON text at 1:1", args_json="\ufeff{}")
    yield args("a key twice", 'args_json: duplicate key "a" at / at 1:11', args_json='{"a":1,"a":2}')

    for field_name, nearest in (("arg", "args"), ("intent_reasons", "intent_reason"), ("Name", "name")):
        says = f'unknown field "{field_name}"; did you mean "{nearest}"?'
        yield row(f"unknown field {field_name}", "unknown_field", says, **{field_name: "x"})
    says = 'unknown field "approved"; remove it or put it into args'
    yield row("unknown field approved", "unknown_field", says, args={}, approved=True)
    send = '{"name":"hints:read_only","args":{"approved":…,"text":…}}'
    says = f'unknown field "approved". The tool\'s own arguments go into args: {send}'
    yield row("arguments beside the name", "unknown_field", says, approved=True, text="x")
    yield row("unknown field in intent", "unknown_field", 'unknown field "operation"', intent={"operation": "read"})
    says = 'unknown field "operation_typ"; did you mean "operation_type"?'
    yield row("misspelt field in intent", "unknown_field", says, intent={"operation_typ": "write"})
    for name in ("reason", "data_sensitivity", "operation_type"):
        says = f'unknown field "intent_{name}"; did you mean "{name}"?'
        yield row(f"intent_{name} in intent", "unknown_field", says, intent={f"intent_{name}": "x"})
    yield Case("no name", "plain", "read", {}, "invalid_field", 'name must be given, as "server:tool"')
    yield Case("a number as name", "plain", "read", {"name": 7}, "invalid_field", "name must be a string")


def names() -> Iterator[Case]:
    def row(name: str, code: str, says: str, suggestions: list[str] | None = None) -> Case:
        return Case(f"name '{name[:20]}'", "plain", "read", {"name": name}, code, says, suggestions=suggestions)

    unqualified = "Invalid tool name: expected server:tool"
    for name in ("", ":x", "hints:", "hints:a:b", "absent", ":"):
        yield row(name, "invalid_tool_name", unqualified)
    yield row(f"hints:{LONG}", "invalid_tool_name", "Invalid tool name: tool name longer than 128")
    letters = "Invalid tool name: tool names consist of letters, digits, `_`, `.` and `-`"
    yield row("hints:a b", "invalid_tool_name", letters)
    server = "Invalid tool name: server names look like [a-z0-9][a-z0-9_-]{0,62}, without two underscores in a row"
    yield row("Hints:read_only", "invalid_tool_name", server)

    code, gone = "tool_not_found", "Tool '{}' not found: {}; {}"
    nothing = "use retrieve_tools to find tools"
    found = "hints:read_only"
    other = "unknown server 'nope'"
    yield row("nope:read_only", code, gone.format("nope:read_only", other, f"did you mean '{found}'?"), [found])
    own = "server 'hints' has no tool 'read_onyl'"
    yield row("hints:read_onyl", code, gone.format("hints:read_onyl", own, f"did you mean '{found}'?"), [found])
    own = "server 'hints' has no tool 'zzzzzz'"
    yield row("hints:zzzzzz", code, gone.format("hints:zzzzzz", own, nothing), [])
    yield row("nope:zzzzzz", code, gone.format("nope:zzzzzz", other, nothing), [])


def settings() -> Iterator[Case]:
    """Cases that depend on the settings."""

    def row(name: str, setting: str, variant: str, tool: str, **outcome: Any) -> Case:
        return Case(name, setting, variant, {"name": f"hints:{tool}"}, **outcome)

    warned: dict[str, Any] = {"warns": "SERVER_MISMATCH", "verified": False}
    for variant in ("read", "write"):
        for tool in ("destructive", "both", "only_deletes"):
            name = f"{variant} of {tool} is a warning"
            yield row(name, "lenient", variant, tool, **warned)
    yield row("read of a writer is a warning", "lenient", "read", "only_writes", **warned)
    yield row("read of read_only is quiet", "lenient", "read", "read_only")
    mismatch = {"operation_type": "write"}
    says = "Intent mismatch: tool is call_tool_read but intent declares write"
    parameters = {"name": "hints:destructive", "intent": mismatch}
    yield Case("the second key stays strict", "lenient", "read", parameters, "INTENT_MISMATCH", says)

    for tool in ("none", "not_destructive"):
        yield row(f"trust: {tool}", "plain", "read", tool, verified=False)
        yield row(f"warn: {tool}", "warn", "read", tool, warns="unannotated", verified=False)
        says = server_mismatch(tool, "read", "not marked read-only", "write")
        yield row(f"require write: {tool}", "require-write", "read", tool, code="SERVER_MISMATCH", says=says)
    for setting in ("warn", "require-write"):
        yield row("read_only is annotated", setting, "read", "read_only")
        yield row("writing needs no annotation", setting, "write", "none", verified=False)
        yield row("destroying needs no annotation", setting, "destructive", "none")
    for tool in ("not_read_only", "only_writes"):
        says = server_mismatch(tool, "read", "marked not read-only", "write")
        yield row(f"read of {tool}", "plain", "read", tool, code="SERVER_MISMATCH", says=says)
    says, why = server_mismatch("destructive", "read"), {"intent_reason": "why", "intent_data_sensitivity": "private"}
    parameters = {"name": "hints:destructive", **why}
    yield Case("refused with a reason", "plain", "read", parameters, "SERVER_MISMATCH", says)
    says = server_mismatch("call_tool_write", "read")
    yield row("a tool named like a variant", "plain", "read", "call_tool_write", code="SERVER_MISMATCH", says=says)


CASES = [*matrices(), *second_keys(), *words(), *shapes(), *names(), *settings()]
assert len({str(case) for case in CASES}) == len(CASES), "two cases have the same name"
