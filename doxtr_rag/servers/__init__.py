"""The loopback process that owns a knowledge base."""
