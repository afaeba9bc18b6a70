"""What must hold of the stores of a small project after a kill, and after the run that follows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
from watcher import FOLDERS, half_documents, question

from doxtr_rag.core.errors import IndexNotBuiltError, StoreError
from doxtr_rag.core.ports import PoolRequest
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import open_reader
from doxtr_rag.storage.corpus import read_state

NEVER, TURNED = "zqxkvnnn", "zqxkvttt"
"""Words of chunks that are always private, and of chunks that turn private."""

INDEX_FILES = {"writer.lock"}
STATE_FILES = {".gitignore", "settings.json", "endpoints.json", "cache.db", "server.lock"}
DRAFTS = (".settings.json.", ".endpoints.json.", ".server.token.")
STORE_FILES = {"corpus.sqlite3", "corpus.sqlite3-wal", "corpus.sqlite3-shm", "lock"}


def after_a_kill(
    root: Path, *, was_built: bool, is_embedding: bool, may_doubt: bool = False
) -> list[str]:
    """Return what is wrong while nobody has repaired anything yet.

    `may_doubt` allows an answer to call a whole index unusable, as on a disk without room for what
    Chroma writes when it opens one.
    """
    faults = []
    for scope, name in FOLDERS.items():
        folder = root / ".doxtr" / name
        try:
            faults += _wrong_answers(folder, scope, may_doubt=may_doubt)
            faults += _damage(folder) + _half_documents(folder)
        except IndexNotBuiltError as error:
            faults += [f"{name}: {error}"] if was_built else []
        except StoreError as error:
            faults.append(f"{name} does not answer: {error}")
    faults += traces(root, NEVER)
    if is_embedding and was_built:
        # What turned private leaves before anything slow begins.
        faults += [f"{where} while texts are embedded" for where in traces(root, TURNED)]
    return faults


def after_success(root: Path) -> list[str]:
    """Return what is wrong after a run that succeeded."""
    faults = []
    for scope, name in FOLDERS.items():
        folder = root / ".doxtr" / name
        faults += _damage(folder) + _wrong_answers(folder, scope) + _leftovers(folder)
        with open_reader(folder, scope, name) as reader:
            try:
                reader.verify()
            except StoreError as error:
                faults.append(str(error))
    faults += [f"left behind: {name}" for name in _strays(root / ".doxtr")]
    return faults + traces(root, NEVER) + traces(root, TURNED)


def traces(root: Path, word: str) -> list[str]:
    """Return the files of the shared store that hold a word, its folder included."""
    shared = root / ".doxtr" / "shared"
    return [
        f"{word} in {path.relative_to(shared)}"
        for path in sorted(shared.rglob("*"))
        if path.is_file() and word.encode() in path.read_bytes().lower()
    ]


def _damage(folder: Path) -> list[str]:
    with closing(_connect(folder)) as corpus:
        said = [line for (line,) in corpus.execute("PRAGMA integrity_check")]
        bare = corpus.execute(
            "SELECT count(*) FROM chunks c WHERE NOT EXISTS "
            "(SELECT 1 FROM vectors v WHERE v.text_hash = c.text_hash)"
        ).fetchone()[0]
        faults = [] if said == ["ok"] else [f"{folder.name}: integrity_check says {said}"]
        if bare:
            faults.append(f"{folder.name}: {bare} chunks without a vector")
        with closing(sqlite3.connect(":memory:")) as copy:
            corpus.backup(copy)
            try:
                # The word index against the texts; it counts as a write, hence the copy.
                copy.execute(
                    "INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('integrity-check', 1)"
                )
            except sqlite3.DatabaseError as error:
                faults.append(f"{folder.name}: word index: {error}")
    return faults


def _wrong_answers(folder: Path, scope: Scope, *, may_doubt: bool = False) -> list[str]:
    """Compare a search with the numbers themselves; one without a whole index must say so."""
    with open_reader(folder, scope, folder.name) as reader:
        fingerprint = reader.fingerprint()
        if fingerprint is None:
            return []
        is_current = read_state(reader.database).index_is_current(folder)
        found = reader.pools(PoolRequest("ports", question(), fingerprint, size=10, best=10))
        is_said = bool(found.degraded)
    faults = []
    if is_said == is_current and not (is_current and may_doubt):
        faults.append(f"{folder.name}: index current: {is_current}, answer degraded: {is_said}")
    scores = [hit.score for hit in found.rankings["dense"]]
    wanted = _best_scores(folder, fingerprint, len(scores) or 1)
    if len(scores) != len(wanted) or not np.allclose(scores, wanted, atol=1e-5):
        faults.append(f"{folder.name}: found {scores[:3]}, nearest are {wanted[:3]}")
    return faults


def _half_documents(folder: Path) -> list[str]:
    with closing(_connect(folder)) as corpus:
        rows = corpus.execute("SELECT document, text FROM chunks").fetchall()
    return [f"{folder.name}: {fault}" for fault in half_documents(rows)]


def _best_scores(folder: Path, fingerprint: str, count: int) -> list[float]:
    with closing(_connect(folder)) as corpus:
        rows = corpus.execute(
            "SELECT vector FROM chunks JOIN vectors USING (text_hash) WHERE fingerprint = ?",
            (fingerprint,),
        ).fetchall()
    matrix = np.frombuffer(b"".join(row[0] for row in rows), dtype="<f4").reshape(len(rows), -1)
    asked = np.frombuffer(question(), dtype="<f4")
    scores = matrix @ asked / np.linalg.norm(matrix, axis=1) / np.linalg.norm(asked)
    return sorted(scores.tolist(), reverse=True)[:count]


def _leftovers(folder: Path) -> list[str]:
    """Return what a store folder has beside the one generation in use."""
    current = (folder / "CURRENT").read_text().strip() if (folder / "CURRENT").exists() else ""
    index = {path.name for path in (folder / "index").glob("*")} - INDEX_FILES - {current}
    beside = {path.name for path in folder.iterdir()} - STORE_FILES - {"index", "CURRENT"}
    return [f"{folder.name}: left behind: {name}" for name in sorted(index | beside)]


def _strays(state: Path) -> list[str]:
    names = {path.name for path in state.iterdir()} - STATE_FILES - {*FOLDERS.values()}
    drafts = {name for name in names if name.startswith(DRAFTS)}
    # A draft of a whole file holds no text, and the token of a dead server; a kill leaves one.
    return sorted(names if len(drafts) > 1 else names - drafts)


def _connect(folder: Path) -> sqlite3.Connection:
    path = folder / "corpus.sqlite3"
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        connection.close()
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            raise
        # A full disk has no room for the file that readers share.
        return sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    return connection
