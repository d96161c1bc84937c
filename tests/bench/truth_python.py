"""Compares the copies found in Python strings with the table of facts, and lists what could not be read.

    python tests/bench/truth_python.py FACTS.tsv CHECKOUTS

CHECKOUTS holds the repositories of the table under their short names, at the commits it names.
"""

from __future__ import annotations

import csv
import os
import sys
import time
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


def complaints(row, sites):
    """What is wrong with one row of the table; nothing where it agrees."""
    place = f"{row['file']}:{row['line']} {row['opcode']}"
    found = [s for s in sites if s.span.path == row["file"] and s.span.line == int(row["line"])]
    wanted = row["all_callers_cluster_1"]
    if wanted == "not a site":
        return [f"{place}: reported, but it is no site"] if found else []
    if len(found) != 1:
        return [f"{place}: {len(found)} copies found"]
    site = found[0]
    wrong = []
    for name, own, table in (
        ("opcode", site.copy.opcode, row["opcode"]),
        ("multicast", str(site.copy.multicast), row["multicast"]),
    ):
        if own != table:
            wrong.append(f"{place}: {name} {own}, table {table}")
    if ("syscall" in row["opcode_on_sm12x"]) != (site.on_target["sm_120a"] == "syscall"):
        wrong.append(f"{place}: {site.on_target['sm_120a']} on sm_120a, table {row['opcode_on_sm12x']}")
    if row["verified"] == "True":
        allowed = {"one"} if wanted == "all_one" else {"larger", "undecided"}
        if site.cluster.verdict not in allowed:
            wrong.append(f"{place}: cluster {site.cluster.verdict}, table {wanted}: {site.cluster.reason}")
    if row["address_verified"] == "True":
        for name, own in (("destination", site.address.destination), ("mbarrier", site.address.mbarrier)):
            if own != row[f"address_{name}"]:
                wrong.append(f"{place}: {name} {own}, table {row[f'address_{name}']}: {site.address.reason}")
    return wrong


def main(table, checkouts):
    """Print one line a repository; exit status 1 where any row disagrees."""
    root = Path(checkouts).resolve()
    failed = False
    rows = read_rows(Path(table).resolve())
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        sites, errors, read, seconds = find_python(folder)
        own = rows.get(folder.name, [])
        wrong = [text for row in own for text in complaints(row, sites)]
        failed = failed or bool(wrong)
        agree = len(own) - len({text.split(" ")[0] for text in wrong})
        print(
            f"{folder.name}: {agree} of {len(own)} rows agree; {len(sites)} copies in {read} files with PTX, "
            f"{len(errors)} not read, {seconds:.1f} s"
        )
        for text in (*wrong, *map(str, errors)):
            print(f"  {text}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
