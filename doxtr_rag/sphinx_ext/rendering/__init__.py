"""Renders the nodes of a resolved doctree as Markdown blocks."""
