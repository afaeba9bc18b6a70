-- A corpus as schema 1 wrote it, with two chunks, their vectors, three runs and a failure.
BEGIN;
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    schema_version INTEGER NOT NULL,
    store_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    fingerprint TEXT NOT NULL DEFAULT '',
    dimension INTEGER NOT NULL DEFAULT 0,
    collection TEXT NOT NULL DEFAULT '',
    revision INTEGER NOT NULL DEFAULT 0,
    erase_pending INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE chunks (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    project TEXT NOT NULL,
    origin TEXT NOT NULL,
    document TEXT NOT NULL,
    anchor TEXT NOT NULL,
    text TEXT NOT NULL,
    header TEXT NOT NULL,
    title TEXT NOT NULL,
    breadcrumb TEXT NOT NULL,
    url TEXT NOT NULL,
    source_file TEXT NOT NULL,
    locator TEXT,
    links TEXT NOT NULL,
    metadata TEXT NOT NULL,
    scope TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    tokens INTEGER NOT NULL
);
CREATE INDEX chunks_by_document ON chunks (project, origin, document);
CREATE INDEX chunks_by_text ON chunks (text_hash);
CREATE TRIGGER chunks_of_this_scope_only BEFORE INSERT ON chunks
WHEN NEW.scope IS NOT (SELECT scope FROM meta) BEGIN
    SELECT RAISE(ABORT, 'chunk of another scope');
END;
CREATE TABLE vectors (
    text_hash TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (text_hash, fingerprint)
);
CREATE TABLE projects (project TEXT PRIMARY KEY, revision TEXT NOT NULL);
CREATE TABLE index_state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    generation TEXT NOT NULL DEFAULT '',
    fingerprint TEXT NOT NULL DEFAULT '',
    revision INTEGER NOT NULL DEFAULT 0,
    dirty INTEGER NOT NULL DEFAULT 0,
    must_rebuild INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0,
    manifest TEXT NOT NULL DEFAULT '{}'
);
INSERT INTO index_state (one) VALUES (1);
CREATE TABLE indexed (text_hash TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE runs (
    seq INTEGER PRIMARY KEY,
    project TEXT NOT NULL,
    origin TEXT NOT NULL,
    started TEXT NOT NULL,
    finished TEXT NOT NULL,
    status TEXT NOT NULL,
    report TEXT NOT NULL
);
CREATE TABLE failures (
    project TEXT NOT NULL,
    origin TEXT NOT NULL,
    document TEXT NOT NULL,
    reason TEXT NOT NULL,
    since TEXT NOT NULL,
    PRIMARY KEY (project, origin, document)
);

CREATE VIRTUAL TABLE chunks_fts USING fts5 (
    title, breadcrumb, text,
    content = 'chunks', content_rowid = 'seq', tokenize = 'porter unicode61'
);
CREATE TRIGGER chunks_fts_insert AFTER INSERT ON chunks BEGIN
    INSERT INTO chunks_fts (rowid, title, breadcrumb, text)
    VALUES (NEW.seq, NEW.title, NEW.breadcrumb, NEW.text);
END;
CREATE TRIGGER chunks_fts_delete AFTER DELETE ON chunks BEGIN
    INSERT INTO chunks_fts (chunks_fts, rowid, title, breadcrumb, text)
    VALUES ('delete', OLD.seq, OLD.title, OLD.breadcrumb, OLD.text);
END;
CREATE TRIGGER chunks_fts_update AFTER UPDATE OF title, breadcrumb, text ON chunks
WHEN OLD.title IS NOT NEW.title OR OLD.breadcrumb IS NOT NEW.breadcrumb
    OR OLD.text IS NOT NEW.text BEGIN
    INSERT INTO chunks_fts (chunks_fts, rowid, title, breadcrumb, text)
    VALUES ('delete', OLD.seq, OLD.title, OLD.breadcrumb, OLD.text);
    INSERT INTO chunks_fts (rowid, title, breadcrumb, text)
    VALUES (NEW.seq, NEW.title, NEW.breadcrumb, NEW.text);
END;
INSERT INTO meta (one, schema_version, store_id, scope, fingerprint, dimension, collection, revision)
    VALUES (1, 1, '55555555555555555555555555555555', 'LOCAL_PRIVATE', 'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff', 8, '', 1);
INSERT INTO chunks (id, project, origin, document, anchor, text, header, title, breadcrumb, url, source_file, locator, links, metadata, scope, content_hash, text_hash, tokens)
    VALUES ('guide/intro#start', 'guide', 'sphinx', 'intro', 'start', 'How to begin.', '', 'About start', '["Manual", "Intro", "About start"]', 'intro.html#start', 'intro.rst', '["line", 3, 9]', '["other#there"]', '{"role": "how-to", "level": 2}', 'LOCAL_PRIVATE', 'bd81c444cd7fbeeb5f90fc920bd3f1eaa12f3babb745aa6a677c1ef726e9442b', '6544153c1e996412531f80278e77b84f2c20752c41b76f9bc2bf27d4aee99781', 3);
INSERT INTO vectors (text_hash, fingerprint, vector)
    VALUES ('6544153c1e996412531f80278e77b84f2c20752c41b76f9bc2bf27d4aee99781', 'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
        X'ed020abf1c37bc3ea5362f3f40d112bdee04563e10511b3e09251e3e2c00f2bd');
INSERT INTO chunks (id, project, origin, document, anchor, text, header, title, breadcrumb, url, source_file, locator, links, metadata, scope, content_hash, text_hash, tokens)
    VALUES ('guide/intro#ports', 'guide', 'sphinx', 'intro', 'ports', 'Which port is open.', '', 'About ports', '["Manual", "Intro", "About ports"]', 'intro.html#ports', 'intro.rst', '["line", 3, 9]', '["other#there"]', '{"role": "how-to", "level": 2}', 'LOCAL_PRIVATE', '2513145646717691eb5275eb155dc4dbaf872ffb78c97acae7c826afd7b3c33f', '8fce0baf1cf6e0b4113ac87bef9d40ee0fb5fdff3f3e85a3435389b20d3ccd18', 4);
INSERT INTO vectors (text_hash, fingerprint, vector)
    VALUES ('8fce0baf1cf6e0b4113ac87bef9d40ee0fb5fdff3f3e85a3435389b20d3ccd18', 'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
        X'8e944c3e0c230a3d7f69213fb80d2d3dd4a7dc3e878ca0be629adcbe528599be');
INSERT INTO projects VALUES ('guide', 'aaaa');
INSERT INTO runs (project, origin, started, finished, status, report)
    VALUES ('guide', 'sphinx', 't0', 't1', 'succeeded', '{"embedded": 2}');
INSERT INTO runs (project, origin, started, finished, status, report)
    VALUES ('guide', 'sphinx', 't2', 't3', 'failed', '{"error": "store_locked", "message": "locked"}');
INSERT INTO runs (project, origin, started, finished, status, report)
    VALUES ('guide', 'sphinx', 't4', 't5', 'incomplete', '{"embedded": 0, "failures": {"b": "unreadable"}}');
INSERT INTO failures VALUES ('guide', 'sphinx', 'b', 'unreadable', 't5');
PRAGMA application_id = 1146247235;
PRAGMA user_version = 1;
COMMIT;
