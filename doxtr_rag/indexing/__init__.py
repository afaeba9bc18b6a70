"""Use cases that write; they reach the world through ports."""
