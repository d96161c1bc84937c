-- Version 3: SASS around the calls of some kernels of binary runs.
CREATE TABLE sass (
    run INTEGER NOT NULL REFERENCES run (number),
    place INTEGER NOT NULL,         -- of the kernel
    record TEXT NOT NULL,           -- JSON: tool, windows of lines, calls, missing
    PRIMARY KEY (run, place)
);
