"""Where documents outside the Sphinx tree come from."""
