"""The command line; printing happens here alone."""
