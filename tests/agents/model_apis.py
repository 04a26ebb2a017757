"""The four model APIs that the agents speak, reduced to what a scripted model needs.

Each API reads a request into a `Turn` and writes a `Reply` in its own format:

| API | path | agents |
|---|---|---|
| Anthropic Messages | `…/messages` | Claude Code |
| OpenAI Responses | `…/responses` | Codex |
| OpenAI Chat Completions | `…/chat/completions` | opencode, Qwen Code |
| Gemini | `…:generateContent`, `…:streamGenerateContent` | Gemini CLI |
"""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Turn:
    """A request to the model: the tools it may call, and the results of its calls so far, by call id."""

    offered: list[str]
    results: list[tuple[str, str]]


@dataclass(frozen=True)
class Call:
    """The model calls a tool."""

    tool: str
    args: Json


@dataclass(frozen=True)
class Text:
    """The model ends its turn."""

    text: str


Reply = Call | Text


@dataclass(frozen=True)
class Answer:
    """The body of an HTTP response."""

    media_type: str
    body: bytes


class Api(ABC):
    """One model API. `turn` returns `None` for a request without tools, such as one for the title of a session."""

    @abstractmethod
    def turn(self, body: Json) -> Turn | None: ...

    @abstractmethod
    def answer(self, body: Json, path: str, reply: Reply) -> Answer: ...


def api_at(path: str) -> Api | None:
    """Returns the API that a path belongs to."""
    if path.endswith("/messages"):
        return Anthropic()
    if path.endswith("/responses"):
        return Responses()
    if path.endswith("/chat/completions"):
        return Chat()
    if "generatecontent" in path.lower():
        return Gemini()
    return None


class Anthropic(Api):
    def turn(self, body: Json) -> Turn | None:
        if not body.get("tools"):
            return None
        blocks = [
            block
            for message in body["messages"]
            if message["role"] == "user" and isinstance(message["content"], list)
            for block in message["content"]
            if block.get("type") == "tool_result"
        ]
        offered = [tool["name"] for tool in body["tools"]]
        return Turn(offered, [(block["tool_use_id"], plain(block.get("content"))) for block in blocks])

    def answer(self, body: Json, path: str, reply: Reply) -> Answer:
        match reply:
            case Call(tool, args):
                block: Json = {"type": "tool_use", "id": fresh("toolu"), "name": tool, "input": args}
                empty = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(args)}
                reason = "tool_use"
            case Text(text):
                block, empty = {"type": "text", "text": text}, {"type": "text", "text": ""}
                delta, reason = {"type": "text_delta", "text": text}, "end_turn"
        message = {
            "id": fresh("msg"),
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "scripted"),
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "stop_sequence": None,
        }
        if not body.get("stream"):
            return whole({**message, "content": [block], "stop_reason": reason})
        end = {"stop_reason": reason, "stop_sequence": None}
        return named_events(
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        )


class Responses(Api):
    def turn(self, body: Json) -> Turn | None:
        if not body.get("tools"):
            return None
        outputs = [item for item in body["input"] if item.get("type") == "function_call_output"]
        return Turn(list(self._names(body)), [(item["call_id"], plain(item["output"])) for item in outputs])

    def answer(self, body: Json, path: str, reply: Reply) -> Answer:
        match reply:
            case Call(tool, args):
                name = self._names(body)[tool]
                call = {"call_id": fresh("call"), "arguments": json.dumps(args), **name}
                item: Json = {"type": "function_call", "id": fresh("fc"), **call}
            case Text(text):
                content = [{"type": "output_text", "text": text, "annotations": []}]
                item = {"type": "message", "id": fresh("msg"), "role": "assistant", "content": content}
        usage = {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        }
        response = {"id": fresh("resp"), "object": "response", "model": "scripted", "usage": usage}
        return named_events(
            {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {**response, "status": "completed", "output": [item]}},
        )

    @staticmethod
    def _names(body: Json) -> dict[str, Json]:
        """Returns the fields that call each tool. Codex puts the tools of an MCP server in a namespace."""
        names: dict[str, Json] = {}
        for tool in body["tools"]:
            if tool.get("type") == "namespace":
                for member in tool["tools"]:
                    names[f"{tool['name']}.{member['name']}"] = {"namespace": tool["name"], "name": member["name"]}
            else:
                name = tool.get("name") or tool["type"]
                names[name] = {"name": name}
        return names


class Chat(Api):
    def turn(self, body: Json) -> Turn | None:
        if not body.get("tools"):
            return None
        outputs = [message for message in body["messages"] if message.get("role") == "tool"]
        offered = [tool["function"]["name"] for tool in body["tools"]]
        return Turn(offered, [(output["tool_call_id"], plain(output["content"])) for output in outputs])

    def answer(self, body: Json, path: str, reply: Reply) -> Answer:
        match reply:
            case Call(tool, args):
                function = {"name": tool, "arguments": json.dumps(args)}
                call = {"index": 0, "id": fresh("call"), "type": "function", "function": function}
                message: Json = {"role": "assistant", "content": None, "tool_calls": [call]}
                reason = "tool_calls"
            case Text(text):
                message, reason = {"role": "assistant", "content": text}, "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        common = {"id": fresh("chat"), "created": 1, "model": "scripted"}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return whole({**common, "object": "chat.completion", "choices": [choice], "usage": usage})
        chunk = {**common, "object": "chat.completion.chunk"}
        first = {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
        last = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}
        return events([json.dumps(first), json.dumps(last), "[DONE]"])


class Gemini(Api):
    # Gemini CLI asks the model which model to use and who speaks next, and expects JSON.
    ASIDE = {"reasoning": "", "model_choice": "flash", "next_speaker": "user", "complexity_score": 1}

    def turn(self, body: Json) -> Turn | None:
        declared = [one for tool in body.get("tools") or [] for one in tool.get("functionDeclarations", [])]
        options = body.get("generationConfig", {})
        if not declared or options.get("responseJsonSchema") or options.get("responseMimeType") == "application/json":
            return None
        results = [
            (f"{place}.{number}", plain(part["functionResponse"].get("response")))
            for place, content in enumerate(body["contents"])
            for number, part in enumerate(content.get("parts", []))
            if "functionResponse" in part
        ]
        return Turn([one["name"] for one in declared], results)

    def answer(self, body: Json, path: str, reply: Reply) -> Answer:
        match reply:
            case Call(tool, args):
                part: Json = {"functionCall": {"name": tool, "args": args, "id": fresh("call")}}
            case Text(text):
                is_aside = self.turn(body) is None
                part = {"text": json.dumps(self.ASIDE) if is_aside else text}
        answer = {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
            "modelVersion": "scripted",
        }
        return events([json.dumps(answer)]) if "stream" in path else whole(answer)


def plain(content: Any) -> str:
    """Returns the text of a result. What is not text stays JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(one["text"] if "text" in one else json.dumps(one) for one in content)
    return json.dumps(content)


def fresh(prefix: str) -> str:
    return f"{prefix}_{next(_numbers)}"


def whole(body: Json) -> Answer:
    return Answer("application/json", json.dumps(body).encode())


def named_events(*bodies: Json) -> Answer:
    text = "".join(f"event: {body['type']}\ndata: {json.dumps(body)}\n\n" for body in bodies)
    return Answer("text/event-stream", text.encode())


def events(bodies: Iterable[str]) -> Answer:
    return Answer("text/event-stream", "".join(f"data: {body}\n\n" for body in bodies).encode())
