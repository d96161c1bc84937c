"""Functions of a CUDA file from its tokens: scopes, templates, kernels and their attributes, bodies.

tree-sitter-cuda loses functions in files with ERROR nodes (about half of real headers: attribute macros,
`#if` across braces). A walk over declaration-level tokens that skips bodies by bracket needs no recovery.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxguard.source.declarators import Parameter, declarator, parameter_names, read_parameters, record_name
from ptxguard.source.tokens import DIRECTIVE, IDENT, PUNCT, Tokens

if TYPE_CHECKING:
    from ptxguard.source.guards import CppFile

# Words before a parenthesis that do not name the function.
_ATTRIBUTES = frozenset(
    "__launch_bounds__ __cluster_dims__ __block_size__ __maxnreg__ __attribute__ __declspec __align__ "
    "alignas noexcept decltype requires explicit throw __nv_pure__ _Alignas static_assert "
    "__minnctapersm sizeof typeof __typeof__".split()
)
_NOT_FUNCTIONS = frozenset(["if", "for", "while", "switch", "catch", "return", "do", "else"])
# Types before a parenthesis open a declarator in it: `void (*table[])(int)`.
_TYPES = frozenset("void bool char short int long float double unsigned signed auto".split())
_RECORDS = frozenset({"class", "struct", "union"})


@dataclass(eq=False)
class Function:
    """A function definition, kernel or not, or a kernel declaration.

    Attributes:
        unit: its file.
        name: unqualified name, `operator()` included.
        scope: enclosing namespaces and classes, outermost first, explicit qualifiers included.
        parameters: in order.
        header: token range (first, behind last) of everything before the body.
        body: token range inside the braces; empty for a declaration.
        template_names: names of its template parameters, in order.
        specialised: template arguments of an explicit specialisation as text, or None.
        is_kernel: whether it is `__global__`.
        is_device: whether it is `__device__` (or a kernel).
        in_record: whether its innermost scope is a class.
        record_templates: template parameters of the enclosing classes.
        body_indices: see `body`.
    """

    unit: CppFile
    name: str
    scope: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    header: tuple[int, int]
    body: tuple[int, int]
    name_index: int
    template_names: tuple[str, ...] = ()
    specialised: tuple[str, ...] | None = None
    is_kernel: bool = False
    is_device: bool = False
    in_record: bool = False
    record_templates: tuple[str, ...] = ()

    @property
    def qualified(self) -> str:
        """Name with its scopes, anonymous ones left out."""
        return "::".join([part for part in self.scope if part] + [self.name])

    @property
    def line(self) -> int:
        """1-based line of the name."""
        return self.unit.file.position(self.unit.tokens.starts[self.name_index])[0]

    @property
    def offset(self) -> int:
        """Offset of the name."""
        return self.unit.tokens.starts[self.name_index]

    @property
    def required_count(self) -> int:
        """Arguments that a call must give."""
        return sum(1 for parameter in self.parameters if not parameter.has_default and not parameter.pack)

    def accepts(self, count: int) -> bool:
        """Whether a call with so many arguments fits."""
        if count < self.required_count:
            return False
        return count <= len(self.parameters) or any(parameter.pack for parameter in self.parameters)


@dataclass(eq=False)
class Structure:
    """Declarations of one file.

    Attributes:
        functions: definitions with a body, in order.
        declarations: kernel declarations without a body.
        records: (name, first, last) token ranges of class bodies.
    """

    functions: list[Function] = field(default_factory=list)
    declarations: list[Function] = field(default_factory=list)
    records: list[tuple[str, int, int]] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)

    def enclosing(self, index: int) -> Function | None:
        """The function whose header or body holds a token."""
        if len(self._starts) != len(self.functions):
            self._starts = [function.header[0] for function in self.functions]
        place = bisect_right(self._starts, index) - 1
        while place >= 0:
            function = self.functions[place]
            if function.header[0] <= index < function.body[1] + 1:
                return function
            if function.body[1] < index:
                return None
            place -= 1
        return None

    def record_at(self, index: int) -> tuple[str, int, int] | None:
        """Innermost class body around a token."""
        best = None
        for record in self.records:
            if record[1] <= index < record[2] and (best is None or record[1] >= best[1]):
                best = record
        return best


def read_structure(unit: CppFile) -> Structure:
    """Functions and classes of a file."""
    reader = _Reader(unit)
    reader.scope(0, len(unit.tokens), (), (), in_record=False)
    reader.structure.functions.sort(key=lambda function: function.header[0])
    return reader.structure


class _Reader:
    def __init__(self, unit: CppFile) -> None:
        self.unit = unit
        self.tokens: Tokens = unit.tokens
        self.structure = Structure()

    def scope(
        self, first: int, last: int, names: tuple[str, ...], templates: tuple[str, ...], *, in_record: bool
    ) -> None:
        """Read the declarations between two tokens."""
        tokens, match = self.tokens, self.tokens.match
        start = index = first
        while index < last:
            kind, text = tokens.kinds[index], tokens.texts[index]
            if kind == DIRECTIVE:
                if index == start:
                    start = index + 1
                index += 1
            elif kind != PUNCT:
                index += 1
            elif text in ("(", "["):
                index = max(match.get(index, index), index) + 1
            elif text == ";":
                self.declaration(start, index, names, templates, in_record=in_record)
                index += 1
                start = index
            elif text == "{":
                index, start = self.braces(start, index, last, names, templates, in_record=in_record)
            elif text == "}" or (text == ":" and in_record and index == start + 1):
                index += 1
                start = index  # a stray brace, or `public:`
            else:
                index += 1

    def braces(
        self,
        start: int,
        index: int,
        last: int,
        names: tuple[str, ...],
        templates: tuple[str, ...],
        *,
        in_record: bool,
    ) -> tuple[int, int]:
        """Handle an opening brace; returns where to go on and where the next declaration starts."""
        tokens = self.tokens
        close = min(tokens.match.get(index, last), last)
        head, generic = self.head(start, index)
        words = [tokens.texts[i] for i in head]
        if "namespace" in words[:3]:
            inner = words[words.index("namespace") + 1 :]
            inner = [w for w in inner if w not in ("::", "inline", "__attribute__")]
            inner = [w for i, w in enumerate(inner) if w.isidentifier() and (i == 0 or inner[i - 1] != "(")][
                :8
            ]
            self.scope(index + 1, close, (*names, *(inner or [""])), templates, in_record=False)
            return close + 1, close + 1
        if words[:1] == ["extern"] and len(words) == 2:
            self.scope(index + 1, close, names, templates, in_record=False)
            return close + 1, close + 1
        record = next((i for i, word in enumerate(words) if word in _RECORDS), None)
        named = self.function_name(head, index)
        if record is not None and named is None and "=" not in words[:record]:
            name = record_name(words, record)
            inner_templates = templates + generic
            self.structure.records.append((name, index + 1, close))
            self.scope(index + 1, close, (*names, name), inner_templates, in_record=True)
            return close + 1, close + 1
        if named is None or words[0] in _NOT_FUNCTIONS or "enum" in words:
            return close + 1, start if named is None and "=" in words else close + 1
        if self.is_member_initialiser(head, named, index):
            return close + 1, start
        self.add(head, generic, named, (index + 1, close), names, templates, in_record=in_record)
        return close + 1, close + 1

    def head(self, start: int, end: int) -> tuple[list[int], tuple[str, ...]]:
        """Tokens of a declaration without its `template <…>` lists, and the template parameters' names."""
        tokens = self.tokens
        found: list[int] = []
        names: tuple[str, ...] = ()
        index = start
        while index < end:
            if tokens.kinds[index] == DIRECTIVE:
                index += 1
            elif tokens.texts[index] == "template" and index + 1 < end and tokens.texts[index + 1] == "<":
                close = self.template_end(index + 1, end)
                names += parameter_names(tokens.texts[index + 2 : close])
                index = close + 1
            else:
                found.append(index)
                index += 1
        return found, names

    def template_end(self, index: int, end: int) -> int:
        """Index of the `>` that closes the `<` at an index; comparisons stand inside parentheses there."""
        tokens, depth = self.tokens, 0
        while index < end:
            text = tokens.texts[index]
            if text in ("(", "[", "{"):
                index = tokens.match.get(index, index)
            elif text == "<":
                depth += 1
            elif text == ">":
                depth -= 1
                if depth == 0:
                    return index
            index += 1
        return end

    def declaration(
        self, start: int, index: int, names: tuple[str, ...], templates: tuple[str, ...], *, in_record: bool
    ) -> None:
        """A declaration that ends with `;`: only kernels matter (attributes may stand there alone)."""
        tokens = self.tokens
        if "__global__" not in tokens.texts[start:index]:
            return
        head, generic = self.head(start, index)
        named = self.function_name(head, index)
        if named is not None:
            self.add(head, generic, named, (index, index), names, templates, in_record=in_record)

    def function_name(self, head: list[int], end: int) -> int | None:
        """Position in `head` of the `(` that opens the parameters, or None where this is no function."""
        tokens = self.tokens
        candidates: list[int] = []
        position = 0
        while position < len(head):
            text = tokens.texts[head[position]]
            if (
                text == "="
                and not candidates
                and (position == 0 or tokens.texts[head[position - 1]] != "operator")
            ):
                return None
            if text == "(":
                close = tokens.match.get(head[position], end)
                if self.names_function(head, position):
                    candidates.append(position)
                while position < len(head) and head[position] < close:
                    position += 1
            elif text == ":" and candidates:
                break
            position += 1
        for candidate in candidates:
            if self.endsdeclarator(tokens.match.get(head[candidate], end) + 1, end):
                return candidate
        return candidates[-1] if candidates else None

    def names_function(self, head: list[int], position: int) -> bool:
        """Whether what stands before a `(` can be a function's name."""
        if position == 0:
            return False
        before = head[position - 1]
        text = self.tokens.texts[before]
        if "operator" in (self.tokens.texts[i] for i in head[max(position - 4, 0) : position]):
            return True
        if self.tokens.kinds[before] == IDENT:
            return text not in _ATTRIBUTES and text not in _NOT_FUNCTIONS and text not in _TYPES
        return text == ">"  # an explicit specialisation `f<2>(`

    def endsdeclarator(self, index: int, end: int) -> bool:
        """Whether nothing but qualifiers follows the parameters."""
        if index >= end:
            return True
        text = self.tokens.texts[index]
        return text in {
            ":",
            "->",
            "const",
            "noexcept",
            "override",
            "final",
            "requires",
            "&",
            "&&",
            "try",
            "volatile",
        }

    def is_member_initialiser(self, head: list[int], named: int, index: int) -> bool:
        """Whether the brace initialises a member in a constructor's list (`: a{1}, b{2} {`)."""
        tokens = self.tokens
        close = tokens.match.get(head[named], index)
        colon = next((i for i in head if i > close and tokens.texts[i] == ":"), None)
        before = tokens.texts[index - 1]
        return colon is not None and (tokens.kinds[index - 1] == IDENT or before == ">")

    def local_records(self, body: tuple[int, int]) -> None:
        """Classes inside of a body: `__shared__ struct { float a[4]; } stage;`."""
        tokens = self.tokens
        for word in _RECORDS:
            for index in tokens.positions.get(word, ()):
                if not body[0] <= index < body[1]:
                    continue
                brace = index + 1
                while brace < body[1] and tokens.texts[brace] not in ("{", ";", "(", ")", "}", "="):
                    brace += 1
                if tokens.texts[brace] == "{":
                    close = tokens.match.get(brace, body[1])
                    name = record_name(tokens.texts[index:brace], 0)
                    self.structure.records.append((name, brace + 1, close))

    def add(
        self,
        head: list[int],
        generic: tuple[str, ...],
        named: int,
        body: tuple[int, int],
        names: tuple[str, ...],
        templates: tuple[str, ...],
        *,
        in_record: bool,
    ) -> None:
        """Record a function."""
        tokens = self.tokens
        self.local_records(body)
        words = [tokens.texts[i] for i in head]
        name_at, name, qualifiers, specialised = declarator(words, named)
        opening = head[named]
        close = tokens.match.get(opening, body[0])
        function = Function(
            self.unit,
            name,
            (*names, *qualifiers),
            read_parameters(tokens, opening, close),
            (head[0], body[0]),
            body,
            head[name_at],
            generic,
            specialised,
            "__global__" in words,
            "__device__" in words or "__global__" in words,
            in_record or bool(qualifiers),
            templates,
        )
        is_declaration = tokens.texts[body[0] : body[0] + 1] == [";"] and body[0] == body[1]
        (self.structure.declarations if is_declaration else self.structure.functions).append(function)
