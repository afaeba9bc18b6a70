"""The Sphinx side: harvest resolved documents, converge at the end of a build."""
