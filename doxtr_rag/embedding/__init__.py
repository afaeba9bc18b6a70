"""Models: weights, tokenizer, session, vectors."""
