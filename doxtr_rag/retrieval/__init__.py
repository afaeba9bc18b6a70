"""Use cases that read; they reach the world through ports."""
