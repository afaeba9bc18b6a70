"""In-memory ports for tests, ours and those of child themes; imports no test framework."""
