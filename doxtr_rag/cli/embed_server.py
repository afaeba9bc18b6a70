"""`doxtr-rag-embed-server`: a model alone behind `/embed`, for machines that share one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from doxtr_rag.bootstrap.model_server import ModelPlace, serve_model
from doxtr_rag.cli.progress import print_to_stderr
from doxtr_rag.core.errors import DoxtrRagError

EPILOG = """examples:
  doxtr-rag-embed-server
  doxtr-rag-embed-server --profile minilm-offline --port 8600
  doxtr-rag-embed-server --host 10.0.0.5 --token-file /etc/doxtr-rag/token

Clients find it by DOXTR_RAG_EMBED_URL=http://127.0.0.1:8519/embed."""


LARGEST_PORT = 65535


def _port(word: str) -> int:
    if not word.isdecimal() or int(word) > LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to {LARGEST_PORT}")
    return int(word)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until a signal ends it; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="doxtr-rag-embed-server",
        description="Serve an embedding model over HTTP: /embed and /health.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address (default: 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8519, help="port (default: 8519)")
    parser.add_argument("--profile", help="embedding profile (default: the project's, else bge-m3)")
    parser.add_argument(
        "--token-file",
        type=Path,
        help="ask for the token in this file; needed on any address but loopback",
    )
    parser.add_argument("--conf", type=Path, help="a conf.py, or its folder")
    arguments = parser.parse_args(argv)
    try:
        place = ModelPlace(arguments.host, arguments.port, arguments.token_file)
        serve_model(arguments.profile, place, conf=arguments.conf, say=print_to_stderr)
    except DoxtrRagError as error:
        print(f"doxtr-rag-embed-server: {error}", file=sys.stderr)
        return error.exit_code
    return 0
