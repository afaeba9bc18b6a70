"""Measuring retrieval against questions with known answers."""
