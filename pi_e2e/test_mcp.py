"""The MCP server as the protocol's own client drives it, and Pi 1.6, which speaks it too."""

from __future__ import annotations

import asyncio
import json

from mcp import Client, StdioServerParameters
from sandbox import BIN, Sandbox, environment_of
from scripted_llm import ScriptedModel, calls
from station import QUESTION, SENTENCE, TOOL

MCP_TOOL = "mcp__doxtr_rag__search_knowledge_base"


def test_pi_asks_the_mcp_server(sandbox_folder, installed, served):
    with ScriptedModel(calls(MCP_TOOL, {"query": QUESTION, "top_k": 2})) as model:
        sandbox = Sandbox(sandbox_folder, installed["pi-1.6"], served, model.url)
        entry = {"command": str(BIN / "doxtr-rag"), "args": ["mcp"], "exposure": "direct"}
        (sandbox.agent / "mcp.json").write_text(json.dumps({"mcpServers": {"doxtr-rag": entry}}))
        done = sandbox.ask(QUESTION)
    names = [tool["function"]["name"] for tool in model.requests[0]["tools"]]
    assert MCP_TOOL in names, done.stderr
    assert SENTENCE in model.tool_result


def test_the_client_of_the_protocol_gets_text_and_structure(tmp_path, served):
    async def drive():
        command = StdioServerParameters(
            command=str(BIN / "doxtr-rag"), args=["mcp"], cwd=str(served),
            env=environment_of(tmp_path),
        )  # fmt: skip
        async with Client(command) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            found = await client.call_tool(TOOL, {"query": QUESTION, "top_k": 2})
            read = await client.call_tool("kb_read", {"doc": "food", "section": "bread"})
            unknown = await client.call_tool("kb_doc", {"doc": "fodd"})
        return tools, found, read, unknown

    tools, found, read, unknown = asyncio.run(drive())
    assert {TOOL, "kb_doc", "kb_read"} == tools.keys()
    assert all(tool.annotations.read_only_hint for tool in tools.values())
    assert found.structured_content["hits"][0]["citation"] == "[Food §Moon cheese]"
    assert SENTENCE in found.content[0].text
    assert read.structured_content["before"]["title"] == "Moon cheese"
    assert unknown.is_error
    assert "did you mean food" in unknown.content[0].text
