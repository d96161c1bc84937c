-- Version 2: what pages show beside the records.
-- The lines of source around findings, as they were when the run was made: pages read no file.
CREATE TABLE excerpt (
    run INTEGER NOT NULL REFERENCES run (number),
    path TEXT NOT NULL,
    first_line INTEGER NOT NULL,    -- from 1
    text TEXT NOT NULL,
    PRIMARY KEY (run, path, first_line)
);
-- The record without what lists never show: a finding of compiled code can name thousands of kernels.
ALTER TABLE finding ADD COLUMN brief TEXT NOT NULL DEFAULT '';
-- Of `check --binary`: confirmed, refuted or unseen; empty where no compiled code was given.
ALTER TABLE finding ADD COLUMN witness TEXT NOT NULL DEFAULT '';
-- What a run costs on each card: the maximum over its kernels, never a sum. It outlives `store gc`.
CREATE TABLE run_price (
    run INTEGER NOT NULL REFERENCES run (number),
    gpu TEXT NOT NULL,
    record TEXT NOT NULL,           -- brief of the finding with that price
    PRIMARY KEY (run, gpu)
);
