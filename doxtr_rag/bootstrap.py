"""The composition root: configuration in, ready engine and retriever out."""
