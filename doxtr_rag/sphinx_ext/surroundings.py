"""What the whole project says about each page: breadcrumb, address, scope signals."""

from __future__ import annotations

import sysconfig
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin

from sphinx.util.i18n import docname_to_domain
from sphinx.util.nodes import clean_astext

from doxtr_rag.core.documents import DocumentContext, Metadata
from doxtr_rag.core.paths import PathRules
from doxtr_rag.core.scope import AccessControl, Scope, ScopeSignal
from doxtr_rag.sphinx_ext.scope_field import DOCUMENT_SIGNAL, metadata_signals

if TYPE_CHECKING:
    from sphinx.config import Config
    from sphinx.environment import BuildEnvironment

FLAGS = ("orphan", "nosearch", "no-search")


def package_folders() -> tuple[Path, ...]:
    """Return where Python packages live: autodoc notes their files as dependencies."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(sorted({Path(sysconfig.get_paths()[name]).resolve() for name in names}))


class Surroundings:
    """Computes the context of each page from an environment whose documents are all read."""

    def __init__(
        self,
        env: BuildEnvironment,
        *,
        root: Path,
        rules: PathRules,
        pages: PageAddresses,
        files_of: Callable[[str], Iterable[str]] = lambda _: (),
        doubts_of: Callable[[str], Iterable[str]] = lambda _: (),
    ) -> None:
        self._env = env
        self._root = root.resolve()
        self._rules = rules
        self._pages = pages
        self._files_of = files_of
        self._doubts_of = doubts_of
        self._above = pages_above(env)
        self._known_signals: dict[str, tuple[ScopeSignal, ...]] = {}

    def of(self, docname: str) -> DocumentContext:
        """Return the context of one page; a shared one does not tell titles of private ones."""
        above = self._above.get(docname, ())
        hidden = () if self.is_private(docname) else tuple(filter(self.is_private, above))
        return DocumentContext(
            breadcrumb=self._titles(name for name in above if name not in hidden),
            url=self._pages.url(docname),
            source_file=self._source_file(docname),
            signals=self._signals(docname),
            metadata=self._metadata(docname),
            withheld=self._titles(hidden),
        )

    def is_private(self, docname: str) -> bool:
        """Say whether a page may not be shared."""
        decision = AccessControl.most_restrictive(self._signals(docname))
        return decision.scope is Scope.LOCAL_PRIVATE

    def _titles(self, names: Iterable[str]) -> tuple[str, ...]:
        found = (self._env.titles[name] for name in names if name in self._env.titles)
        return tuple(filter(None, (" ".join(clean_astext(title).split()) for title in found)))

    def _source_file(self, docname: str) -> str:
        path = Path(self._env.doc2path(docname))
        if path.is_relative_to(self._root):
            return path.relative_to(self._root).as_posix()
        return path.relative_to(self._env.srcdir).as_posix()

    def _signals(self, docname: str) -> tuple[ScopeSignal, ...]:
        if docname not in self._known_signals:
            self._known_signals[docname] = self._asked_signals(docname)
        return self._known_signals[docname]

    def _asked_signals(self, docname: str) -> tuple[ScopeSignal, ...]:
        path = Path(self._env.doc2path(docname))
        signals = [*self._rules.signals(path)]
        others = {Path(self._env.srcdir, name) for name in self._files_of(docname)}
        for dependency in sorted(dependencies(self._env, docname) | others):
            signals += self._rules.dependency_signals(dependency)
        signals += metadata_signals(self._env.metadata.get(docname, {}))
        signals += [ScopeSignal(DOCUMENT_SIGNAL, None, why) for why in self._doubts_of(docname)]
        return tuple(dict.fromkeys(signals))

    def _metadata(self, docname: str) -> Metadata:
        found = self._env.metadata.get(docname, {})
        return {flag: True for flag in FLAGS if flag in found}


def dependencies(env: BuildEnvironment, docname: str) -> set[Path]:
    """Return the files besides its own that a page is made of.

    Sphinx knows of the translations of a page only before it reads it.
    """
    found = {Path(env.srcdir, name) for name in env.dependencies.get(docname, ())}
    return found | set(filter(Path.is_file, _catalogs(env, docname)))


def _catalogs(env: BuildEnvironment, docname: str) -> Iterator[Path]:
    language = str(env.config.language or "")
    domain = docname_to_domain(docname, env.config.gettext_compact)
    for folder in env.config.locale_dirs:
        for name in filter(None, {language, language.partition("_")[0]}):
            yield Path(env.srcdir, folder, name, "LC_MESSAGES", f"{domain}.mo")


class PageAddresses:
    """URLs of pages by `rag_url_style`, whichever builder ran."""

    def __init__(self, config: Config, style: str, base: str) -> None:
        self._style = style
        self._base = base
        file, link = config.html_file_suffix, config.html_link_suffix
        # Without a base an address is looked up among the files, whatever links say.
        suffix = link if base and link is not None else file
        self._suffix = ".html" if suffix is None else str(suffix)

    def url(self, docname: str) -> str:
        """Return the page's address: absolute with a base, else relative to the output."""
        page = self._directory(docname) if self._style == "dirhtml" else self._file(docname)
        base = self._base if self._base.endswith("/") or not self._base else f"{self._base}/"
        return urljoin(base, page) if base else page

    def _file(self, docname: str) -> str:
        return quote(docname) + self._suffix

    @staticmethod
    def _directory(docname: str) -> str:
        if docname == "index":
            return ""
        return quote(docname.removesuffix("/index")) + "/"


def pages_above(env: BuildEnvironment) -> dict[str, tuple[str, ...]]:
    """Return the pages above each page, outermost first, without the root.

    A page in several toctrees hangs below the first one met when walking from the root document;
    pages that only an orphan leads to hang below that.
    """
    root = str(env.config.root_doc)
    parents: dict[str, str] = {}
    for start in (root, *sorted(env.toctree_includes)):
        _walk(env.toctree_includes, start, parents, root)
    return {name: _line_of(name, parents, root) for name in env.all_docs}


def _walk(
    includes: Mapping[str, Iterable[str]], start: str, parents: dict[str, str], root: str
) -> None:
    pending = deque([start])
    while pending:
        parent = pending.popleft()
        children = [
            child for child in includes.get(parent, ()) if child not in parents and child != root
        ]
        for child in children:
            if not _is_above(child, parent, parents):
                parents.setdefault(child, parent)
                pending.append(child)


def _is_above(name: str, below: str, parents: Mapping[str, str]) -> bool:
    while below != name and below in parents:
        below = parents[below]
    return below == name


def _line_of(docname: str, parents: Mapping[str, str], root: str) -> tuple[str, ...]:
    line: list[str] = []
    above = parents.get(docname)
    while above is not None and above != root:
        line.append(above)
        above = parents.get(above)
    return tuple(reversed(line))
