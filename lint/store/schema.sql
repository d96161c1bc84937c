-- Runs of ptxguard with what they found. Version 1; `PRAGMA user_version` holds the version of a file.

CREATE TABLE runs (
    id         INTEGER PRIMARY KEY,
    kind       TEXT NOT NULL CHECK (kind IN ('source', 'binary', 'probe')),
    subject    TEXT NOT NULL,             -- what was judged; runs of the same kind and subject are one history
    tool       TEXT NOT NULL,             -- version of ptxguard
    revision   TEXT NOT NULL DEFAULT '',  -- commit of the repository, "" where there is none
    started    TEXT NOT NULL,             -- UTC, ISO 8601
    settings   TEXT NOT NULL,             -- JSON: targets and options
    artifacts  TEXT NOT NULL DEFAULT '[]' -- JSON: [{"path", "member", "sha256"}]
);
CREATE INDEX runs_by_subject ON runs (kind, subject, id);

CREATE TABLE findings (
    run         INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    fingerprint TEXT NOT NULL,
    code        TEXT NOT NULL,
    severity    TEXT NOT NULL,
    path        TEXT NOT NULL,
    line        INTEGER NOT NULL,
    record      TEXT NOT NULL,            -- JSON as `check --output-format json` writes it
    PRIMARY KEY (run, fingerprint)
) WITHOUT ROWID;
CREATE INDEX findings_by_fingerprint ON findings (fingerprint, run);

CREATE TABLE reviews (
    fingerprint TEXT PRIMARY KEY,
    status      TEXT NOT NULL CHECK (status IN ('confirmed', 'intended', 'false alarm')),
    note        TEXT NOT NULL DEFAULT '',
    at          TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE kernels (
    run         INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    artifact    TEXT NOT NULL,
    target      TEXT NOT NULL,
    name        TEXT NOT NULL,
    registers   INTEGER,
    stack_bytes INTEGER,
    syscalls    TEXT NOT NULL             -- JSON list of names
);
CREATE INDEX kernels_by_run ON kernels (run, target);

CREATE TABLE probes (
    run    INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    gpu    TEXT NOT NULL,
    driver TEXT NOT NULL,
    date   TEXT NOT NULL,
    result TEXT NOT NULL                  -- JSON as `probe` writes it
);
