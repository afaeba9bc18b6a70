"""`python paced_run.py SECONDS JOURNAL none ingest SPEC.json`: counted_run.py with a slow model."""

import sys
import time

import counted_run

from doxtr_rag.embedding.onnx import OnnxEmbedder

if __name__ == "__main__":
    seconds, *rest = sys.argv[1:]
    embed = OnnxEmbedder.embed

    def paced(self, texts):
        for batch in embed(self, texts):
            time.sleep(float(seconds))
            yield batch

    OnnxEmbedder.embed = paced
    sys.exit(counted_run.main(rest))
