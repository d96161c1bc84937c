"""Compares the copies found in Python strings with the table of facts, and lists what could not be read.

    python tests/bench/truth_python.py FACTS.tsv CHECKOUTS

CHECKOUTS holds the repositories of the table under their short names, at the commits it names.
"""

from __future__ import annotations

import csv
import os
import sys
import time
from collections import Counter
from pathlib import Path

from ptxguard.source.analyse import COPY_WORD, Options
from ptxguard.source.project import Project
from ptxguard.source.sites import SiteFinder
from ptxguard.source.tree import read_tree


def read_rows(table):
    """Rows of kind python_string, by repository."""
    rows = {}
    with Path(table).open(encoding="utf-8") as file:
        lines = (line for line in file if not line.startswith("#"))
        for row in csv.DictReader(lines, delimiter="\t"):
            if row["kind"] == "python_string":
                rows.setdefault(row["repo"].split("/")[1], []).append(row)
    return rows


def find_python(checkout):
    """Copies and errors of the Python files of a checkout, with the seconds that took."""
    os.chdir(checkout)
    start = time.perf_counter()
    options = Options()
    finder = SiteFinder(Project(read_tree(["."]), {}), options.targets, None, ())
    sites = []
    files = [file for file in finder.project.tree.python_files if file.reported and COPY_WORD in file.data()]
    for file in files:
        sites.extend(finder.of_python(file))
    return sites, finder.errors, len(files), time.perf_counter() - start


def judge(row, sites, tally):
    """Count where one row of the table and the copies found agree; yields what does not."""
    place = f"{row['file']}:{row['line']} {row['opcode']}"
    found = [s for s in sites if s.span.path == row["file"] and s.span.line == int(row["line"])]
    wanted = row["all_callers_cluster_1"]
    if wanted == "not a site":
        tally["false sites"] += bool(found)
        if found:
            yield f"{place}: reported, but it is no site"
        return
    tally["sites"] += 1
    if len(found) != 1:
        yield f"{place}: {len(found)} copies found"
        return
    site = found[0]
    verdict, reason = site.cluster.verdict, site.cluster.reason
    allowed = {"one"} if wanted == "all_one" else {"larger", "undecided"}
    driver = "syscall" if "syscall" in row["opcode_on_sm12x"] else "other"
    own_driver = "syscall" if site.on_target["sm_120a"] == "syscall" else "other"
    tally["hits"] += 1
    compared = [
        ("opcode", site.copy.opcode, {row["opcode"]}),
        ("multicast", str(site.copy.multicast), {row["multicast"]}),
    ]
    compared.append(("on sm_120a", own_driver, {driver}))
    if row["verified"] == "True" or wanted != "all_one":
        compared.append(("verdict", verdict, allowed))
    if row["address_verified"] == "True":
        compared.append(("destination", site.address.destination, {row["address_destination"]}))
        compared.append(("mbarrier", site.address.mbarrier, {row["address_mbarrier"]}))
    for name, own, table in compared:
        tally[f"{name} compared"] += 1
        tally[f"{name} equal"] += own in table
        if own not in table:
            yield f"{place}: {name} {own}, table {' or '.join(sorted(table))}: {reason}; {site.address.reason}"


COLUMNS = ("opcode", "multicast", "on sm_120a", "verdict", "destination", "mbarrier")


def main(table, checkouts):
    """Print one line a repository; exit status 1 where any row disagrees."""
    root = Path(checkouts).resolve()
    failed = False
    rows = read_rows(Path(table).resolve())
    print(
        "repository  rows  hits  "
        + "  ".join(COLUMNS)
        + "  false sites | copies  files with PTX  not read  seconds"
    )
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        sites, errors, read, seconds = find_python(folder)
        own, tally = rows.get(folder.name, []), Counter()
        wrong = [text for row in own for text in judge(row, sites, tally)]
        failed = failed or bool(wrong)
        equal = "  ".join(f"{tally[f'{name} equal']}/{tally[f'{name} compared']}" for name in COLUMNS)
        print(
            f"{folder.name}  {len(own)}  {tally['hits']}/{tally['sites']}  {equal}  {tally['false sites']} | "
            f"{len(sites)}  {read}  {len(errors)}  {seconds:.1f}"
        )
        for text in (*wrong, *map(str, errors)):
            print(f"  {text}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
