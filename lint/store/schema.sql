-- Version 1. Read by SQLite and by PostgreSQL: statements end with a semicolon, none stands inside one.
CREATE TABLE run (
    number INTEGER PRIMARY KEY,
    run_key TEXT NOT NULL UNIQUE,   -- the same in every store that the run is merged into
    kind TEXT NOT NULL,             -- source, binary or probe
    subject TEXT NOT NULL,          -- runs of one subject are compared with each other
    created TEXT NOT NULL,          -- UTC, 2026-12-01T05:00:00Z
    tool TEXT NOT NULL,
    toolchain TEXT NOT NULL,        -- empty where none took part
    revision TEXT NOT NULL,         -- of the repository, empty where there is none
    errors TEXT NOT NULL,           -- JSON list: path, line, message
    finding_count INTEGER NOT NULL,
    kernel_count INTEGER NOT NULL,
    thinned INTEGER NOT NULL        -- 1: `store gc` has taken its findings and kernels away
);
CREATE INDEX run_subject ON run (subject, created, run_key);
CREATE TABLE artifact (
    run INTEGER NOT NULL REFERENCES run (number),
    place INTEGER NOT NULL,
    path TEXT NOT NULL,
    member TEXT NOT NULL,           -- empty for the file itself
    sha256 TEXT NOT NULL,
    PRIMARY KEY (run, place)
);
CREATE TABLE finding (
    run INTEGER NOT NULL REFERENCES run (number),
    place INTEGER NOT NULL,         -- position in the report, from 0
    subject TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    code TEXT NOT NULL,
    rule TEXT NOT NULL,
    severity INTEGER NOT NULL,      -- 1 note, 2 warning, 3 error
    confidence INTEGER NOT NULL,    -- 1 low, 2 medium, 3 high
    path TEXT NOT NULL,
    line INTEGER NOT NULL,
    function TEXT NOT NULL,
    verdict TEXT NOT NULL,          -- of the cluster size, empty where it is not asked
    destination TEXT NOT NULL,      -- verdict of the address, empty where it is not asked
    record TEXT NOT NULL,           -- JSON of the contract
    PRIMARY KEY (run, place)
);
CREATE INDEX finding_fingerprint ON finding (fingerprint, run);
CREATE INDEX finding_path ON finding (run, path, line);
CREATE TABLE price (
    run INTEGER NOT NULL,
    place INTEGER NOT NULL,
    gpu TEXT NOT NULL,
    mib DOUBLE PRECISION,           -- NULL: not known
    basis TEXT NOT NULL,
    PRIMARY KEY (run, place, gpu)
);
CREATE TABLE finding_target (
    run INTEGER NOT NULL,
    place INTEGER NOT NULL,
    target TEXT NOT NULL,
    PRIMARY KEY (run, place, target)
);
CREATE TABLE history (
    subject TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    run INTEGER NOT NULL REFERENCES run (number),
    state TEXT NOT NULL,            -- new, unchanged, reopened or resolved
    PRIMARY KEY (subject, fingerprint, run)
);
CREATE INDEX history_run ON history (run, state);
CREATE TABLE review (
    subject TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    status TEXT NOT NULL,           -- confirmed, intended or false alarm
    note TEXT NOT NULL,
    changed TEXT NOT NULL,          -- UTC
    PRIMARY KEY (subject, fingerprint)
);
CREATE TABLE kernel (
    run INTEGER NOT NULL REFERENCES run (number),
    place INTEGER NOT NULL,
    artifact INTEGER NOT NULL,
    image INTEGER NOT NULL,
    name TEXT NOT NULL,
    demangled TEXT NOT NULL,
    target TEXT NOT NULL,
    registers INTEGER,              -- NULL: the image does not say
    stack_bytes INTEGER,            -- NULL: not known
    stack_unknown TEXT NOT NULL,    -- why, empty where it is known
    cluster_dims TEXT NOT NULL,     -- 2,1,1 or empty
    syscall_count INTEGER NOT NULL,
    syscalls TEXT NOT NULL,         -- JSON list of {name, sites}
    externs TEXT NOT NULL,          -- JSON list of names
    PRIMARY KEY (run, place)
);
CREATE INDEX kernel_target ON kernel (run, target, place);
CREATE INDEX kernel_syscall ON kernel (run, syscall_count);
CREATE INDEX kernel_name ON kernel (run, name);
CREATE TABLE probe (
    run INTEGER PRIMARY KEY REFERENCES run (number),
    card TEXT NOT NULL,
    sm TEXT NOT NULL,
    driver TEXT NOT NULL,
    measured TEXT NOT NULL,         -- UTC, when it ran on the card
    record TEXT NOT NULL            -- probe.json
);
