"""Reading files, one module per format, behind one registry."""
