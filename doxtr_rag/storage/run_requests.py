"""What somebody asks of a run: one small file beside the corpus that keeps its ledger."""

from __future__ import annotations

import json
from pathlib import Path

from doxtr_rag.core.files import replace_text
from doxtr_rag.core.runs import Request
from doxtr_rag.storage.private_files import foreseen_os_errors

REQUEST_FILE = "run-request.json"
"""No table of the corpus: who asks holds no lock, and must not keep the run from writing."""


class RunRequests:
    """The request to the run of one store; the last one counts."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / REQUEST_FILE

    def ask(self, run_id: str, request: Request) -> None:
        """Leave a request for a run to find.

        Raises:
            StoreError: the folder cannot be written.
        """
        with foreseen_os_errors(self._path):
            replace_text(self._path, json.dumps({"run": run_id, "request": request.value}))

    def asked(self, run_id: str) -> Request | None:
        """Return what was asked of a run; None when nothing was, or of another run."""
        try:
            said = json.loads(self._path.read_text(encoding="utf-8"))
            return Request(said["request"]) if said["run"] == run_id else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def clear(self) -> None:
        """Forget what was asked.

        Raises:
            StoreError: the folder cannot be written.
        """
        with foreseen_os_errors(self._path):
            self._path.unlink(missing_ok=True)
