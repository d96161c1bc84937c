"""The engine finds every rule of the package, selects by code and says what it does not know."""

from __future__ import annotations

import pkgutil

import pytest

import ptxguard.rules
from ptxguard.arch import DEFAULT_TARGETS, Target
from ptxguard.engine import all_rules, find_rule, run_rules, select_rules
from ptxguard.errors import ConfigError
from ptxguard.model import Analysis
from ptxguard.rule import CheckOptions
from sitekit import CLUSTER_2D, make_site

OPTIONS = CheckOptions(tuple(map(Target.parse, DEFAULT_TARGETS)))


def codes(rules):
    return [rule.meta.code for rule in rules]


def test_every_module_of_the_package_is_a_rule():
    names = [module.name for module in pkgutil.iter_modules(ptxguard.rules.__path__)]
    assert len(all_rules()) == len(names) > 0
    assert codes(all_rules()) == sorted(codes(all_rules()))


@pytest.mark.parametrize("name", ["TMA001", "tma001", "cluster-form-copy"])
def test_a_rule_is_found_by_code_and_name(name):
    assert find_rule(name).meta.code == "TMA001"


@pytest.mark.parametrize(
    ("wrong", "suggestion"),
    [
        ("TMA01", "did you mean TMA001"),
        ("cluster-copy", "did you mean cluster-form-copy"),
        ("x", "the codes are .*TMA001"),
    ],
)
def test_an_unknown_rule_names_the_nearest(wrong, suggestion):
    with pytest.raises(ConfigError, match=suggestion):
        find_rule(wrong)
    with pytest.raises(ConfigError, match=suggestion):
        select_rules([wrong], [])


def test_selection_by_prefix_list_and_exception():
    everything = codes(all_rules())
    assert codes(select_rules([], [])) == everything
    assert codes(select_rules(["TMA"], ["TMA002,TMA003"])) == [
        c for c in everything if c.startswith("TMA") and c not in ("TMA002", "TMA003")
    ]
    assert codes(select_rules(["software-multicast", "tma001"], [])) == ["TMA001", "TMA002"]
    with pytest.raises(ConfigError):
        select_rules([""], [])


def test_findings_are_sorted_and_fingerprints_survive_moved_lines():
    def fingerprints(before):
        sites = (
            make_site(path="z/b.cuh", before=before),
            make_site(path="a.cuh", before=before),
            make_site(CLUSTER_2D + ".multicast::cluster", path="a.cuh", before=before + "\n"),
        )
        found = run_rules(Analysis(tuple(sites)), all_rules(), OPTIONS)
        assert [(f.path, f.line) for f in found] == sorted((f.path, f.line) for f in found)
        return [finding.fingerprint for finding in found]

    assert fingerprints("") == fingerprints("\n" * 200)
    assert len(set(fingerprints(""))) == 3


def test_equal_copies_are_told_apart_by_their_order():
    sites = (make_site(), make_site(before="\n\n"))
    first, second = run_rules(Analysis(tuple(sites)), all_rules(), OPTIONS)
    assert first.fingerprint.split(":")[0] == second.fingerprint.split(":")[0]
    assert (first.fingerprint[-2:], second.fingerprint[-2:]) == (":1", ":2")
