"""Declarators as words: names with qualifiers, parameters, template parameters, class names."""

from __future__ import annotations

from dataclasses import dataclass

from ptxguard.source.tokens import DIRECTIVE, PUNCT, Tokens


@dataclass(frozen=True, eq=False)
class Parameter:
    """A function parameter.

    Attributes:
        name: "" where it has none.
        type_text: its type as written, white space folded.
        has_default: whether a call may leave it out.
        pack: whether it is a parameter pack.
    """

    name: str
    type_text: str
    has_default: bool
    pack: bool


def declarator(words: list[str], named: int) -> tuple[int, str, tuple[str, ...], tuple[str, ...] | None]:
    """Index of the name, the name, explicit qualifiers, and specialised template arguments."""
    position = named - 1
    if "operator" in words[max(named - 4, 0) : named]:
        start = max(i for i in range(max(named - 4, 0), named) if words[i] == "operator")
        symbol = "".join(words[start + 1 : named])
        if not symbol:  # `operator()(`: the parameters are the next parenthesis
            symbol = "()"
        return start, "operator" + symbol, _qualifiers(words, start), None
    specialised = None
    if words[position] == ">":
        depth, stop = 0, position
        while position >= 0:
            depth += (words[position] == ">") - (words[position] == "<")
            if depth == 0:
                break
            position -= 1
        specialised = split_arguments(words[position + 1 : stop])
        position -= 1
    name, at = (words[position] if position >= 0 else ""), max(position, 0)
    if position > 0 and words[position - 1] == "~":
        position -= 1
        name = "~" + name
    return at, name, _qualifiers(words, position), specialised


def _qualifiers(words: list[str], position: int) -> tuple[str, ...]:
    """Names before `::` in front of a declarator, template arguments dropped."""
    found: list[str] = []
    while position >= 2 and words[position - 1] == "::":
        position -= 2
        depth = 0
        while position > 0 and (words[position] == ">" or depth):
            depth += (words[position] == ">") - (words[position] == "<")
            position -= 1
        found.append(words[position])
    return tuple(name for name in reversed(found) if name.isidentifier())


def split_arguments(words: list[str]) -> tuple[str, ...]:
    """Template arguments as text, split at commas outside of brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += (word in ("<", "(", "[", "{")) - (word in (">", ")", "]", "}"))
        if word == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(word)
    return tuple("".join(part) for part in parts if part)


def parameter_names(words: list[str]) -> tuple[str, ...]:
    """Names of template parameters between `<` and `>`; none for `template <>`."""
    if not words:
        return ()
    names, depth, last, done = [], 0, "", False
    for place, word in enumerate([*words, ","]):
        depth += (word in ("<", "(", "{")) - (word in (">", ")", "}"))
        if depth == 1 and word.isidentifier() and _is_pointer_declarator(words, place):
            last, done = word, True  # `void (*Kernel)(int)`
        if word == "," and depth <= 0:
            names.append(last)
            last, done = "", False
        elif depth == 0 and word == "=":
            done = True
        elif depth == 0 and not done and word.isidentifier():
            last = word
    return tuple(names)


def _is_pointer_declarator(words: list[str], place: int) -> bool:
    """Whether a name stands alone behind `(*` or `(&`, other than in `decltype(&f)`."""
    before, after = words[max(place - 3, 0) : place], words[place + 1 : place + 2]
    return before[-2:] in (["(", "*"], ["(", "&"]) and after == [")"] and before[:-2] != ["decltype"]


def record_name(words: list[str], position: int) -> str:
    """Name of a class: the last plain word before its bases, template arguments or body."""
    name = ""
    index = position + 1
    while index < len(words):
        word = words[index]
        if word in (":", "<", "final"):
            break
        if word == "(":
            depth = 0
            while index < len(words):
                depth += (words[index] == "(") - (words[index] == ")")
                index += 1
                if depth == 0:
                    break
            continue
        if word.isidentifier() and word not in ("alignas", "__align__", "__attribute__"):
            name = word
        index += 1
    return name


def read_parameters(tokens: Tokens, opening: int, close: int) -> tuple[Parameter, ...]:
    """Parameters between two parentheses."""
    parts: list[list[int]] = [[]]
    depth = 0
    for index in range(opening + 1, close):
        if tokens.kinds[index] == DIRECTIVE:
            continue
        text = tokens.texts[index]
        if tokens.kinds[index] == PUNCT:
            depth += (text in ("(", "[", "{", "<")) - (text in (")", "]", "}", ">"))
            if text == "," and depth == 0:
                parts.append([])
                continue
        parts[-1].append(index)
    words = [[tokens.texts[i] for i in part] for part in parts if part]
    return tuple(_parameter(part) for part in words if part not in (["void"], ["..."]))


def _parameter(words: list[str]) -> Parameter:
    has_default = "=" in words
    if has_default:
        words = words[: words.index("=")]
    pack = "..." in words
    body = [word for word in words if word != "..."]
    name, place = "", len(body)
    if "(" in body and ("*" in body or "&" in body):  # pointer or reference to function or array
        for index in range(1, len(body)):
            if body[index].isidentifier() and body[index - 1] in ("*", "&", "&&"):
                name, place = body[index], index
                break
    if not name:
        cut = body.index("[") if "[" in body else len(body)
        if cut and body[cut - 1].isidentifier() and cut > 1:
            name, place = body[cut - 1], cut - 1
    types = body[:place] + body[place + 1 :] if name else body
    return Parameter(name, " ".join(types), has_default, pack)
