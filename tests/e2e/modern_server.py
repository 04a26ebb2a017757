"""An HTTP server on the Python SDK for both protocol eras, with tools that send progress and request input.

Usage: modern_server.py PORT
"""

from __future__ import annotations

import sys
from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, ElicitationResult, MCPServer, Resolve
from mcp.types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("modern", version="1")
READ = ToolAnnotations(read_only_hint=True)


class Name(BaseModel):
    name: str


async def ask_name() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


@server.tool(annotations=READ)
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(annotations=READ)
async def count(to: int, ctx: Context) -> str:
    """Counts with progress."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return "counted"


@server.tool(annotations=READ)
async def greet(answer: Annotated[ElicitationResult[Name], Resolve(ask_name)]) -> str:
    """Asks for a name first."""
    return f"hello {answer.data.name}" if answer.action == "accept" else f"no name: {answer.action}"


if __name__ == "__main__":
    server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
