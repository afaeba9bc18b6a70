"""Directives that write the reference from the code, so that it cannot be out of date."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive

from doxtr_rag.cli.parser import build_parser
from doxtr_rag.config.environment import known_variables
from doxtr_rag.config.schema import PREFIX, SphinxRAGConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

CODE = re.compile(r"`([^`]+)`")
HELP_COLUMNS = "88"


def prose(text: str) -> nodes.paragraph:
    """Return a paragraph in which `code` is code."""
    paragraph = nodes.paragraph()
    for at, piece in enumerate(CODE.split(text)):
        paragraph += nodes.literal(text=piece) if at % 2 else nodes.Text(piece)
    return paragraph


def entry(name: str, *body: nodes.Node) -> nodes.section:
    """Return a section of one name, with an anchor that can be linked to."""
    title = nodes.title("", "", nodes.literal(text=name))
    return nodes.section("", title, *body, ids=[nodes.make_id(name)], names=[name])


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the commands of a parser by name."""
    return {
        name: command
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, command in action.choices.items()
    }


class Generated(Directive):
    """A directive without arguments that yields one section for each name."""

    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        return list(self.entries())

    def entries(self) -> Iterator[nodes.Node]:
        """Yield the sections."""
        raise NotImplementedError


class Configuration(Generated):
    """One section for each key of conf.py."""

    def entries(self) -> Iterator[nodes.Node]:
        """Yield key, default and help."""
        for field in dataclasses.fields(SphinxRAGConfig):
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            shown = prose(f"Default: `{default!r}`")
            yield entry(PREFIX + field.name, shown, prose(field.metadata["help"]))


class Variables(Generated):
    """One section for each environment variable."""

    def entries(self) -> Iterator[nodes.Node]:
        """Yield variable and help."""
        for name, text in sorted(known_variables().items()):
            yield entry(name, prose(text))


class Commands(Generated):
    """One section for each command, with its own help."""

    def entries(self) -> Iterator[nodes.Node]:
        """Yield the help of the whole and of each command."""
        os.environ["COLUMNS"] = HELP_COLUMNS  # argparse asks the terminal otherwise
        parser = build_parser()
        yield entry("doxtr-rag", help_of(parser))
        for name, command in subparsers(parser).items():
            yield entry(f"doxtr-rag {name}", help_of(command))


def help_of(parser: argparse.ArgumentParser) -> nodes.literal_block:
    """Return what `--help` prints."""
    text = parser.format_help().rstrip()
    return nodes.literal_block(text, text, language="text")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("rag-configuration", Configuration)
    app.add_directive("rag-environment", Variables)
    app.add_directive("rag-commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
