"""How a library call is written for the own CTA's window: another tag, or the call that has tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.location import Span
from ptxguard.source.exprs import split_arguments
from ptxguard.source.spaces import WORD
from ptxguard.source.tokens import IDENT, NUMBER
from ptxguard.source.wrappertags import tag_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ptxguard.source.uses import Use
    from ptxguard.source.wrappers import Version, Wrapper

Rewrite = tuple[tuple[Span, str], ...]
_TAGS = "cuda::ptx::space_shared, cuda::ptx::space_global, "
# libcu++: the experimental calls take the barrier, those of `cuda::ptx` its 64-bit word.
_HANDLE = "cuda::device::barrier_native_handle("


def rewrite_of(wrapper: Wrapper, use: Use, versions: Iterable[Version]) -> Rewrite:
    """Characters of a call and what stands in their place; () where the tree's library has no such call."""
    since, known = wrapper.shared_since, list(versions)
    if since is None or not known or min(known) < since or use.tokens is not use.unit.tokens:
        return ()
    if wrapper.tagged:
        tag = tag_token(use)
        start = use.tokens.starts[tag] + len("space_") if tag is not None else 0
        return ((_span(use, start, start + len(WORD)), "shared"),) if tag is not None else ()
    return tuple(_modern(wrapper, use))


def _modern(wrapper: Wrapper, use: Use) -> Iterator[tuple[Span, str]]:
    """An experimental call as the one of `cuda::ptx` that it makes itself."""
    tokens = use.tokens
    close = tokens.match.get(use.after)
    parts = split_arguments(tokens, use.after + 1, close) if close is not None else []
    if (
        len(parts) != (3 if wrapper.rank else 4) + wrapper.rank
        or use.after != use.index + 1
        or not all(parts)
    ):
        return
    namespace, _, name = wrapper.becomes.rpartition("::")
    yield _span(use, tokens.starts[_first(use)], use.offset), f"{namespace}::"
    yield _span(use, use.offset, tokens.end(use.index)), name
    yield _insertion(use, tokens.end(use.after)), _TAGS
    coordinates = parts[2 : 2 + wrapper.rank]
    for number, part in enumerate(coordinates):
        # The experimental call converts to int; in braces that has to be said.
        plain = len(part) == 1 and tokens.kinds[part[0]] == NUMBER
        before, after = ("", "") if plain else ("int(", ")")
        yield _insertion(use, tokens.starts[part[0]]), ("{" if number == 0 else "") + before
        yield _insertion(use, tokens.end(part[-1])), after + ("}" if number == wrapper.rank - 1 else "")
    yield _insertion(use, tokens.starts[parts[-1][0]]), _HANDLE
    yield _insertion(use, tokens.end(parts[-1][-1])), ")"


def _first(use: Use) -> int:
    """The token with which the qualified name begins."""
    tokens, first = use.tokens, use.index
    while first >= 1 and tokens.texts[first - 1] == "::":
        first -= 2 if first >= 2 and tokens.kinds[first - 2] == IDENT else 1
    return first


def _span(use: Use, start: int, end: int) -> Span:
    return Span(use.unit.file, start, end)


def _insertion(use: Use, at: int) -> Span:
    return _span(use, at, at)
