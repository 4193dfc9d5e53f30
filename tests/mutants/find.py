"""Mutants of a Rust file: small mistakes, each behind a condition that a number in the environment turns on.

All mutants of a file are compiled together, so a thousand of them need one build. `Source.text` writes the file with them;
`omega_core::mutants::on(N)`, which `build.py` adds, is true in a process whose `OMEGA_MUTANT` is N.
"""

import re
from dataclasses import dataclass

import tree_sitter
import tree_sitter_rust

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))

# Operators, each with its replacement. The second list has the operators of assignments.
SWAPS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "+": "-", "-": "+", "*": "/", "/": "*", "%": "/",
    "&": "|", "|": "&", "<<": ">>", ">>": "<<",
}
ASSIGNMENT_SWAPS = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "|=": "&=", "&=": "|="}

# Nodes without mutants: constants, which the compiler evaluates, and nodes without expressions that run.
CONSTANT = {"const_item", "static_item", "const_block", "attribute_item", "inner_attribute_item", "macro_invocation",
            "macro_definition", "array_type", "enum_variant", "match_pattern", "type_arguments", "const_parameter"}
NUMBERS = {"u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize"}


@dataclass
class Mutant:
    number: int
    path: str
    line: int
    what: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.what}"


class Source:
    """A file, its mutants, and its text with those that are not dropped."""

    def __init__(self, path, text, first):
        self.path, self.bytes, self.next = path, text, first
        self.mutants, self.dropped = [], set()
        # Maps the byte range and type of each node with mutants to their numbers and the functions that change the
        # node's text.
        self.changes = {}
        self._walk(PARSER.parse(text).root_node)

    def _new(self, node, what, change):
        number = self.next
        self.next += 1
        self.mutants.append(Mutant(number, self.path, node.start_point[0] + 1, what))
        self.changes.setdefault((node.start_byte, node.end_byte, node.type), []).append((number, change))

    def _of(self, node):
        return self.bytes[node.start_byte:node.end_byte].decode()

    def _walk(self, node):
        if node.type in CONSTANT:
            guard = node.child_by_field_name("condition") if node.type == "match_pattern" else None
            if guard is not None and "let_c" not in guard.type and not self._is_injected(guard):
                self._guard(guard)
                self._walk(guard)
            return
        if node.type == "function_item" and not self._function(node):
            return
        if node.type == "mod_item" and self._is_test(node):
            return
        if node.type == "if_expression" and self._is_injected(node.child_by_field_name("condition")):
            return
        handle = getattr(self, "_" + node.type, None)
        if handle:
            handle(node)
        for child in node.named_children:
            self._walk(child)

    def _is_test(self, node):
        before = node.prev_named_sibling
        while before is not None and before.type in ("attribute_item", "line_comment"):
            if "test" in self._of(before) and before.type == "attribute_item":
                return True
            before = before.prev_named_sibling
        return False

    def _is_injected(self, condition):
        """Whether this is code of an injected bug."""
        return "injected!" in self._of(condition)

    def _function(self, node):
        """Returns at once with a plain value; answers whether the function's body may have mutants."""
        body = node.child_by_field_name("body")
        modifiers = [child for child in node.children if child.type == "function_modifiers"]
        if body is None or self._is_test(node) or any("const" in self._of(one) for one in modifiers):
            return False
        kind = node.child_by_field_name("return_type")
        kind = "()" if kind is None else self._of(kind)
        name = self._of(node.child_by_field_name("name"))
        for value in values(kind):
            if self._of(body).strip("{} \n") == value or body.named_child_count == 0:
                continue
            what = f"{name} returns {value}" if value else f"{name} does nothing"
            self._new(body, what, lambda text, on, value=value: f"{{ if {on} {{ return {value}; }} {text[1:]}")
        return True

    def _binary_expression(self, node):
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = self._of(node.child_by_field_name("operator"))

        def parts():
            return self._text(left), self._text(right)

        def what(other):
            return f"`{operator}` becomes `{other}` in `{short(self._of(node))}`"

        if operator in ("==", "!="):
            self._new(node, what("!=" if operator == "==" else "=="), lambda text, on: f"(({text}) != {on})")
        elif operator == "&&":
            self._new(node, what("||"), lambda _, on: "(if ({0}) != {2} {{ {1} }} else {{ {2} }})".format(*parts(), on))
        elif operator == "||":
            self._new(node, what("&&"), lambda _, on: "(if ({0}) == {2} {{ {1} }} else {{ !{2} }})".format(*parts(), on))
        elif operator in SWAPS:
            other = SWAPS[operator]
            self._new(node, what(other), lambda text, on:
                      "(if {2} {{ ({0}) {3} ({1}) }} else {{ {4} }})".format(*parts(), on, other, text))

    def _unary_expression(self, node):
        inner = node.named_children[0]
        if self.bytes[node.start_byte:node.start_byte + 1] == b"!":
            self._new(node, f"`!` is missing in `{short(self._of(node))}`",
                      lambda _, on: f"(({self._text(inner)}) == {on})")

    def _expression_statement(self, node):
        inner = node.named_children[0] if node.named_children else None
        if inner is None or not self._of(node).endswith(";"):
            return
        if inner.type == "compound_assignment_expr":
            operator = self._of(inner.child_by_field_name("operator"))
            if operator in ASSIGNMENT_SWAPS:
                left, right = inner.child_by_field_name("left"), inner.child_by_field_name("right")
                other = ASSIGNMENT_SWAPS[operator]
                self._new(node, f"`{operator}` becomes `{other}` in `{short(self._of(node))}`", lambda text, on:
                          f"if {on} {{ {self._text(left)} {other} {self._text(right)}; }} else {{ {text} }}")
        elif inner.type in ("call_expression", "assignment_expression", "try_expression", "await_expression"):
            self._new(node, f"`{short(self._of(node))}` is missing", lambda text, on: f"if !{on} {{ {text} }}")

    def _if_expression(self, node):
        condition = node.child_by_field_name("condition")
        if condition.type in ("call_expression", "field_expression", "identifier"):
            self._guard(condition)

    def _guard(self, node):
        self._new(node, f"condition `{short(self._of(node))}` is the opposite", lambda text, on: f"(({text}) != {on})")

    def _text(self, node):
        """The text of a node with the mutants within it."""
        out, at = [], node.start_byte
        for child in node.children:
            out.append(self.bytes[at:child.start_byte].decode())
            out.append(self._text(child))
            at = child.end_byte
        out.append(self.bytes[at:node.end_byte].decode())
        text = "".join(out)
        for number, change in self.changes.get((node.start_byte, node.end_byte, node.type), ()):
            if number not in self.dropped:
                text = change(text, f"omega_core::mutants::on({number})")
        return text

    def text(self):
        root = PARSER.parse(self.bytes).root_node
        return self.bytes[:root.start_byte].decode() + self._text(root) + self.bytes[root.end_byte:].decode()

    def kept(self):
        return [mutant for mutant in self.mutants if mutant.number not in self.dropped]


def values(kind):
    """Plain values of a type, for a function that returns one of them at once."""
    if kind == "()":
        return [""]
    if kind == "bool":
        return ["true", "false"]
    if kind in NUMBERS:
        return ["0", "1"]
    if kind.startswith("Option<"):
        return ["None"]
    if kind.startswith("Vec<"):
        return ["Vec::new()"]
    if re.match(r"Result<\(\)", kind):
        return ["Ok(())"]
    return []


def short(text):
    text = " ".join(text.split())
    return text if len(text) <= 70 else text[:67] + "..."


def around(text, start, end):
    """The numbers of the mutants in the smallest part of a mutated text that contains a place and a mutant."""
    node = PARSER.parse(text).root_node.descendant_for_byte_range(start, end)
    while node is not None:
        found = re.findall(rb"mutants::on\((\d+)\)", text[node.start_byte:node.end_byte])
        if found:
            return {int(number) for number in found}
        node = node.parent
    return set()
