"""The MCP server inside Pi 1.6, which speaks the protocol itself."""

from __future__ import annotations

import json

from conftest import QUESTION
from sandbox import BIN, Sandbox
from scripted_llm import ScriptedModel, calls

MCP_TOOL = "mcp__doxtr_rag__search_knowledge_base"


def test_pi_asks_the_mcp_server(tmp_path, installed, served):
    with ScriptedModel(calls(MCP_TOOL, {"query": QUESTION, "top_k": 2})) as model:
        sandbox = Sandbox(tmp_path / "sandbox", installed["pi-1.6"], served, model.url)
        entry = {"command": str(BIN / "doxtr-rag"), "args": ["mcp"], "exposure": "direct"}
        (sandbox.agent / "mcp.json").write_text(json.dumps({"mcpServers": {"doxtr-rag": entry}}))
        done = sandbox.ask(QUESTION)
    names = [tool["function"]["name"] for tool in model.requests[0]["tools"]]
    assert MCP_TOOL in names, done.stderr
    assert "every second Monday" in model.tool_result
