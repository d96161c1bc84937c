-- Version 2. The lines of source around findings, as they were when the run was made: pages read no file.
CREATE TABLE excerpt (
    run INTEGER NOT NULL REFERENCES run (number),
    path TEXT NOT NULL,
    first_line INTEGER NOT NULL,    -- from 1
    text TEXT NOT NULL,
    PRIMARY KEY (run, path, first_line)
);
