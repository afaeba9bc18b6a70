"""Start a widget."""

MARK = "PUBLICMARK-literalinclude"
