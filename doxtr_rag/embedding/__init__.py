"""Models: weights, tokenizer, session, vectors."""

import os

# Nothing leaves the machine: from 1.32 on, onnxruntime sends a machine's figures and a device id
# to its maker, unless its own environment says otherwise before it is loaded.
os.putenv("ORT_DISABLE_TELEMETRY", "1")
