"""Connects the extension to Sphinx; each handler is a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.errors import ConfigError as SphinxConfigError
from sphinx.util import logging

from doxtr_rag import bootstrap
from doxtr_rag.core.documents import Harvest
from doxtr_rag.core.errors import ConfigError, DoxtrRagError, ScopeViolationError
from doxtr_rag.core.paths import PathRules
from doxtr_rag.indexing.report import RunReport
from doxtr_rag.sphinx_ext import config_values
from doxtr_rag.sphinx_ext.builder import RagBuilder
from doxtr_rag.sphinx_ext.progress import SphinxProgress
from doxtr_rag.sphinx_ext.references import words_recorder
from doxtr_rag.sphinx_ext.scope_field import DOCUMENT_SIGNAL
from doxtr_rag.sphinx_ext.session import (
    HarvestSession,
    builder_kind,
    conditions,
    is_page,
    spool_folder,
)
from doxtr_rag.sphinx_ext.spool import Spool
from doxtr_rag.sphinx_ext.surroundings import (
    PageAddresses,
    Surroundings,
    package_folders,
)
from doxtr_rag.sphinx_ext.warnings import RagWarning, fail, warn

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.config import Config
    from sphinx.environment import BuildEnvironment

VALIDATE = 800
AFTER_OTHER_EXTENSIONS = 950
WRITES_PAGES = ("html", "dirhtml")

SHARING_UNDECLARED = (
    "no document can become SHARED_ORG: rag_source_roots is not set and the source folder is not "
    'called source. To share, name the folders in conf.py, "." for the whole project: '
    'rag_source_roots = ["docs"]'
)

logger = logging.getLogger("doxtr_rag")


def register(app: Sphinx) -> None:
    """Declare keys and builder and connect the handlers."""
    config_values.register(app)
    app.add_builder(RagBuilder)
    handlers = _Handlers()
    app.add_post_transform(words_recorder(handlers.words))
    app.connect("config-inited", handlers.validate, priority=VALIDATE)
    app.connect("env-updated", handlers.catch_up, priority=AFTER_OTHER_EXTENSIONS)
    app.connect("doctree-resolved", handlers.collect, priority=AFTER_OTHER_EXTENSIONS)
    app.connect("build-finished", handlers.finish, priority=AFTER_OTHER_EXTENSIONS)


class _Handlers:
    """The state of one application: its settings, and the harvest of the build under way."""

    def __init__(self) -> None:
        self.words: dict[str, tuple[str, ...]] = {}
        self._project: bootstrap.Project | None = None
        self._session: HarvestSession | None = None

    def validate(self, app: Sphinx, config: Config) -> None:
        """Check every setting at once, before a document is read."""
        try:
            self._project = config_values.project(app, config)
        except ConfigError as error:
            raise SphinxConfigError(str(error)) from error
        for problem in self._project.environment.unknown:
            warn(app, RagWarning.ENVIRONMENT, "%s", problem)
        if self._project.settings.mounts:
            count = len(self._project.settings.mounts)
            warn(
                app,
                RagWarning.INCOMPLETE,
                "rag_external_mounts: %d mounts are not indexed yet",
                count,
            )

    def catch_up(self, app: Sphinx, env: BuildEnvironment) -> list[str]:
        """Ask Sphinx to resolve what the spool lacks."""
        if self._project is None:  # set up by a program, after the configuration was read
            self.validate(app, app.config)
        if not self._feeds(app):
            return []
        spool = Spool(spool_folder(app))
        self._session = HarvestSession(spool, self.words, conditions(app))
        return self._session.missing(env)

    def collect(self, app: Sphinx, doctree: nodes.document, docname: str) -> None:
        """Harvest a resolved document; the tree is read only."""
        if self._session is not None and is_page(app, doctree, docname):
            self._session.collect(app, doctree, docname)

    def finish(self, app: Sphinx, error: Exception | None) -> None:
        """Converge the knowledge base; a failed build changes nothing."""
        session = self._session
        if error is not None or self._project is None:
            return
        if session is None:
            _say_that_nothing_was_fed(app)
            return
        try:
            report = self._converge(app, session, self._project)
        except ScopeViolationError:
            raise
        except DoxtrRagError as failure:
            fail(app, "doxtr_rag: %s", failure)
        else:
            _summarize(app, session, report)
            bootstrap.serve_after_build(self._project, logger.info)
        if session.problem is not None:
            fail(app, "doxtr_rag: %s", session.problem)

    def _feeds(self, app: Sphinx) -> bool:
        project = self._project
        return project is not None and builder_kind(app.builder) in project.settings.builders

    @staticmethod
    def _converge(app: Sphinx, session: HarvestSession, project: bootstrap.Project) -> RunReport:
        settings = project.settings
        if settings.sharing_undeclared:
            logger.info("doxtr_rag: %s", SHARING_UNDECLARED)
        session.refresh_stale(app)
        rules = PathRules(
            root=settings.root,
            source_roots=settings.source_roots,
            private_parts=settings.private_paths,
            package_folders=package_folders(),
        )
        pages = PageAddresses(app.config, settings.url_style, settings.html_baseurl)
        surroundings = Surroundings(
            app.env,
            root=settings.root,
            rules=rules,
            pages=pages,
            files_of=session.files_of,
            doubts_of=session.doubts_of,
        )
        harvest = session.harvest(app.env, settings.project, surroundings)
        _warn_of_doubtful_scopes(app, harvest)
        session.close(app.env)
        pages_folder = Path(app.outdir) if builder_kind(app.builder) in WRITES_PAGES else None
        with SphinxProgress(app.verbosity) as progress:
            return bootstrap.ingest(project, harvest, progress, pages_folder, logger.info)


def _say_that_nothing_was_fed(app: Sphinx) -> None:
    kind = builder_kind(app.builder)
    if isinstance(app.builder, RagBuilder):
        fail(app, "doxtr_rag: rag_builders lacks %r, which has no other purpose: add it", kind)
    else:
        logger.info("doxtr_rag: builder %s leaves the knowledge base alone", kind)


def _warn_of_doubtful_scopes(app: Sphinx, harvest: Harvest) -> None:
    contexts = {item.document: item.context for item in harvest.documents} | dict(harvest.kept)
    for name, context in contexts.items():
        for signal in context.signals:
            if signal.origin == DOCUMENT_SIGNAL and signal.scope is None:
                warn(app, RagWarning.SCOPE, "%s: kept private", signal.reason, page=name)


def _summarize(app: Sphinx, session: HarvestSession, report: RunReport) -> None:
    for line in report.lines():
        logger.info("doxtr_rag: %s", line)
    if report.truncated:
        text = "%d texts were cut to the model's limit"
        warn(app, RagWarning.TRUNCATED, text, report.truncated)
    for sentence in report.warnings:
        warn(app, RagWarning.STORE, "%s", sentence)
    for document, reason in sorted(report.failures.items()):
        fail(app, "doxtr_rag: %s is not up to date: %s", document, reason)
    if report.failures:
        session.forget(app.env, report.failures)
    unread = report.kept - len(session.failures)
    if unread > 0 and session.problem is None:
        warn(
            app,
            RagWarning.INCOMPLETE,
            "%d documents were not resolved in this build and stay as they were stored: "
            "build without file arguments",
            unread,
        )
