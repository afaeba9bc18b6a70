"""A project's own extraction commands."""
