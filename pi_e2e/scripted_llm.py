"""A language model that follows a script: OpenAI's streaming chat interface on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Reply = dict
Script = Callable[[dict], Reply]
"""Returns `{"text": ...}` or `{"tool": name, "arguments": {...}}` for the body of a request."""

ECHOED = 60_000


def text_of(content: object) -> str:
    """Return the text of a message, whichever of its two shapes it has."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [])


def calls(tool: str, arguments: dict) -> Script:
    """Return a script that calls a tool for each question, then repeats what the tool said."""

    def script(body: dict) -> Reply:
        last = body["messages"][-1]
        if last["role"] == "tool":
            return {"text": f"ANSWER: {text_of(last['content'])[:ECHOED]}"}
        return {"tool": tool, "arguments": arguments}

    return script


class ScriptedModel:
    """The server; `requests` are the bodies it was sent."""

    def __init__(self, script: Script) -> None:
        self.requests: list[dict] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                model.requests.append(body)
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                for event in events(script(body)):
                    self.wfile.write(f"data: {event}\n\n".encode())
                self.close_connection = True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ScriptedModel:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def system_prompt(self) -> str:
        """The system prompt of the first request."""
        return text_of(self.requests[0]["messages"][0]["content"])

    @property
    def tool_result(self) -> str:
        """What the last tool said to the model."""
        assert self.requests, "Pi asked the model nothing"
        messages = self.requests[-1]["messages"]
        results = [m for m in messages if m["role"] == "tool"]
        assert results, f"no tool was called; the last message: {messages[-1]}"
        return text_of(results[-1]["content"])


def events(reply: Reply) -> list[str]:
    """Return the stream of one reply."""
    if "tool" in reply:
        function = {"name": reply["tool"], "arguments": json.dumps(reply["arguments"])}
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        delta = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "tool_calls"
    else:
        delta, reason = {"role": "assistant", "content": reply["text"]}, "stop"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    parts = [
        head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        head | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
    ]
    return [*map(json.dumps, parts), "[DONE]"]
