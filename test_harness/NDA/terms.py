"""Terms under NDA."""

TERMS = "PRIVATEMARK-tapir"
