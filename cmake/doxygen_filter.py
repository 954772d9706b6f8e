#!/usr/bin/env python3
"""doxygen_filter.py HEADER: prints a public header with its // comments in the form that Doxygen reads.

Headers stay plain manual pages.  The output has the same number of lines, so warnings name the right one.

- The preamble documents the class that its first word names, or else the file.
- A comment above or behind a declaration documents it.  An overload or a data member on the next line shares it.
- Indented lines are code.  `Throws: …` and the other contracts are paragraphs with a heading.
- `namespace internal`, other libraries' namespaces, macros whose names end with an underscore, comments in function bodies,
  and destructors, copies and moves are left out.

A contract out of order, or one that does not start its line, becomes a command that Doxygen does not know, and so an error there."""
import re
import sys

CONTRACTS = ["Shapes", "Blocks", "Throws", "Thread safety", "Cost", "PyTorch source"]
CONTRACT = re.compile(r"(" + "|".join(CONTRACTS) + r"): +(.*)")
CONTRACT_IN_TEXT = re.compile(r"[.:;)] +(?:" + "|".join(CONTRACTS) + r"):(?: |$)")
COMMENT_LINE = re.compile(r"\s*//")
HIDDEN_NAMESPACE = re.compile(r"namespace (?:c10d|c10|torch|at|distrun::internal|internal)\b")
SCOPE = re.compile(r"(?:template |inline |friend |typedef )*(?:namespace|class|struct|enum|union)\b[^(]*$")
IMPLICIT = re.compile(
    r"\s*(?:(?:virtual )?~\w+\(\)|(\w+)\((?:(?:const )?\1 ?&&?)?(?: ?/\*\w+\*/)?\)"
    r"|(\w+)& operator=\((?:const )?\2 ?&&?(?: ?/\*\w+\*/)?\))[\w =]*;"
    r"|\s*friend .*(?:= default|(?:class|struct) [\w:]+);")


def blanked(line):
    """The line with what stands in quotes replaced by underscores."""
    return re.sub(r'"(?:[^"\\]|\\.)*"|(?<!\d)\'(?:[^\'\\]|\\.)+\'', lambda match: "_" * len(match.group()), line)


def split_comment(line):
    """The code of a line, and where its // comment for readers starts, or -1."""
    at = blanked(line).find("//")
    if at < 0:
        return line, -1
    return line[:at], -1 if line[at:].startswith(("// NOLINT", "// namespace")) else at


def escaped(text):
    """Text in which Doxygen finds no markup but backquotes."""
    parts = text.split("`")
    for i in range(0, len(parts), 2):
        part = re.sub(r"[\\@<>#&*]", r"\\\g<0>", parts[i])
        part = re.sub(r"(?<!\w)_(?=\w)", r"\\_", part)
        parts[i] = re.sub(r"--", r"\\--", part)
    return "`".join(parts)


def marked_up(texts):
    """The lines of one comment as Doxygen's markup, as many lines."""
    marked, in_code, last = [], False, -1
    for i, text in enumerate(texts):
        blank = not text.strip()
        indented = text.startswith("    ") and (in_code or i == 0 or not texts[i - 1].strip())
        if in_code:
            following = next((line for line in texts[i:] if line.strip()), "")
            if following.startswith("    "):
                marked.append(text[4:])
                continue
            in_code = False
            marked.append("\\endcode" if blank else "\\endcode " + escaped(text))
        elif indented:
            in_code = True
            if marked:
                marked[-1] = "\\code{.cpp}"  # The blank line.
                marked.append(text[4:])
            else:
                marked.append("\\code{.cpp} " + text[4:])
        elif contract := CONTRACT.match(text):
            order = CONTRACTS.index(contract.group(1))
            wrong = "" if order > last else "\\contract_out_of_order "
            last = order
            wrong += "\\contract_must_start_its_line " if CONTRACT_IN_TEXT.search(text) else ""
            marked.append(f"\\contract{{{contract.group(1)}}} {wrong}{escaped(contract.group(2))}")
        elif CONTRACT_IN_TEXT.search(text):
            marked.append("\\contract_must_start_its_line " + escaped(text))
        else:
            marked.append(escaped(text))
    if in_code:
        marked[-1] += " \\endcode"
    return marked


def comment_texts(lines):
    return [re.sub(r"^\s*// ?", "", line) for line in lines]


def name_of(declaration):
    """The name of a function, or None."""
    while (shorter := re.sub(r"<[^<>]*>", "", declaration)) != declaration:
        declaration = shorter
    match = re.search(r"(operator\W+|\w+)\(", declaration)
    return match.group(1) if match else None


def is_function_head(statement):
    """What stands before a brace is a function's head, and not a value's or a requirement's."""
    outside = statement
    while (shorter := re.sub(r"\([^()]*\)", "@", outside)) != outside:
        outside = shorter
    return "(" not in outside and " = " not in outside and re.search(r"(?:[@}]|\b(?:const|noexcept|override))$", outside) is not None


def is_data_member(declaration):
    return name_of(declaration.split("=")[0]) is None and not re.match(r"\s*(?:using|friend|class|struct|enum|namespace|template)\b", declaration)


def split_members(declaration):
    """`int a = 0, b = 0;` as a list of declarations, of which Doxygen would document the first alone."""
    match = re.fullmatch(r"(\s*[\w:<>, ]*[\w>]) (\w+(?: = [^,;]+)?(?:, \w+(?: = [^,;]+)?)+);\s*", declaration)
    return [f"{match.group(1)} {one};" for one in match.group(2).split(", ")] if match else [declaration]


def documented_class(lines, word):
    """`class` or `struct` if the header defines one of that name without a comment of its own, else None."""
    for i, line in enumerate(lines if word else []):
        match = re.match(rf"(class|struct) {word}\b[^;]*$", line)
        if match:
            above = next(text for text in reversed(lines[:i]) if not text.startswith("template"))
            return None if COMMENT_LINE.match(above) else match.group(1)
    return None


class Filter:
    def __init__(self, header, lines):
        self.header = header  # The name that users include.
        self.lines = lines
        self.out = []
        self.scopes = []  # "scope", "hidden", "body", "body of a value"
        self.statement = ""
        self.comment = []  # The current declaration's, or the last one's.
        self.name, self.is_member = None, False
        self.fresh = False  # The line above ended a declaration.

    def hidden(self):
        return "hidden" in self.scopes

    def in_body(self):
        return any(scope.startswith("body") for scope in self.scopes)

    def preamble(self):
        """Marks up the first comment; returns the number of its lines."""
        count = next(i for i, line in enumerate(self.lines) if not COMMENT_LINE.match(line))
        if count == 0:
            raise SystemExit(f"{self.header}:1: expected a comment that says what the header is for")
        texts = comment_texts(self.lines[:count])
        word = re.match(r"(\w*)", texts[0]).group(1)
        kind = documented_class(self.lines, word)
        marked = marked_up(texts)
        marked[0] = (f"\\{kind} distrun::{word} {self.header} <{self.header}> " if kind else f"\\file {self.header} ") + marked[0]
        self.out += ["/// " + text for text in marked]
        if kind:
            assert self.lines[count] == "#pragma once"
            self.out.append(f"/** \\file {self.header} Declares distrun::{word}. */")
            count += 1
        return count

    def read_code(self, code):
        """Follows scopes; returns whether a hidden one was opened, and whether one was closed."""
        opened = closed = False
        for letter in blanked(code):
            if letter == "{":
                statement = " ".join(self.statement.split())
                bare = statement
                while (shorter := re.sub(r"<[^<>]*>", "", bare)) != bare:
                    bare = shorter
                bare = " ".join(re.sub(r"^(?:public|private|protected):", "", bare).split())
                if HIDDEN_NAMESPACE.match(bare):
                    kind, opened = "hidden", not self.hidden()
                elif SCOPE.match(bare) and not self.in_body():
                    kind = "scope"
                else:
                    kind = "body" if self.in_body() or is_function_head(bare) else "body of a value"
                self.scopes.append(kind)
                if kind in ("scope", "hidden"):
                    self.statement = ""
            elif letter == "}":
                was_hidden = self.hidden()
                kind = self.scopes.pop()
                closed = closed or (was_hidden and not self.hidden())
                self.statement = self.statement + "}" if kind == "body of a value" and not self.in_body() else ""
            elif letter == ";" and not self.in_body():
                self.statement = ""
            elif not self.in_body():
                self.statement += letter
        self.statement = "" if re.fullmatch(r"\s*(?:public|private|protected):\s*", self.statement) else self.statement + " "
        return opened, closed

    def run(self):
        i = self.preamble()
        while i < len(self.lines):
            i = self.line(i)
        return self.out

    def line(self, i):
        line = self.lines[i]
        if not line.strip():
            self.fresh = False
            self.out.append("")
            return i + 1
        if line.startswith("#"):
            return self.directive(i)
        if COMMENT_LINE.match(line):
            end = next(j for j in range(i, len(self.lines) + 1) if j == len(self.lines) or not COMMENT_LINE.match(self.lines[j]))
            lines = self.lines[i:end]
            outside = not self.hidden() and not self.in_body() and not self.statement.strip()
            detached = end == len(self.lines) or not self.lines[end].strip()
            if outside and not detached:
                self.comment = marked_up(comment_texts(lines))
                self.out += ["/// " + text for text in self.comment]
                self.fresh = False
                self.declare(end)
            else:
                self.out += [""] * len(lines)
            return end
        return self.code(i)

    def directive(self, i):
        """A macro that users call is kept; the others, with their continued lines, are not."""
        end = i
        while self.lines[end].endswith("\\"):
            end += 1
        macro = re.match(r"#define (\w+)", self.lines[i])
        keep = not macro or not (macro.group(1).endswith("_") or self.hidden())
        self.out += [line if keep else "" for line in self.lines[i : end + 1]]
        if macro and keep:
            self.fresh, self.name, self.is_member = True, None, False
        return end + 1

    def declare(self, i):
        """Remembers what the declaration at line i is."""
        text = ""
        for line in self.lines[i:]:
            text += split_comment(line)[0] + " "
            if re.search(r"[;{]", blanked(text)):
                break
        self.name, self.is_member = name_of(text), is_data_member(text)
        return text

    def code(self, i):
        line = self.lines[i]
        code, at = split_comment(line)
        starts = not self.statement.strip() and not self.in_body() and not self.hidden()
        prefix = ""
        if code.lstrip().startswith("}"):
            self.comment = []
        elif starts and self.fresh:
            name, was_member, comment = self.name, self.is_member, self.comment
            self.declare(i)
            shares = comment and at < 0 and (self.is_member and was_member or name is not None and name == self.name)
            if shares and not any("code" in text for text in comment):
                prefix = "/** " + " ".join(comment) + " */ "
            else:
                self.comment = []
        elif starts and not (self.out and self.out[-1].startswith("///")):
            self.comment = []
            self.declare(i)
        if starts and not self.comment and at < 0 and IMPLICIT.match(code):
            self.read_code(code)
            self.fresh = True
            self.out.append("")
            return i + 1
        visible = not self.hidden() and not self.in_body()
        opened, closed = self.read_code(code)
        if opened:
            self.out.append("/** \\cond */ " + code)
            return i + 1
        if closed:
            self.out.append(code + " /** \\endcond */")
            return i + 1
        self.fresh = visible and not self.in_body() and not self.statement.strip()
        members = split_members(code) if starts and visible else [code]
        if len(members) > 1:
            comment = self.comment if at < 0 else marked_up([line[at:].lstrip("/ ")])
            shared = "/** " + " ".join(comment) + " */" if comment else ""
            first = shared if prefix or at >= 0 else ""
            self.out.append(" ".join([first + members[0]] + [shared + member for member in members[1:]]))
            return i + 1
        if at < 0 or not visible:
            self.out.append(prefix + code)
            return i + 1
        end = i + 1  # The comment after it continues below.
        while end < len(self.lines) and COMMENT_LINE.match(self.lines[end]) and self.lines[end].index("//") == at and code.strip():
            end += 1
        behind = marked_up([self.lines[i][at:].lstrip("/ ")] + comment_texts(self.lines[i + 1 : end]))
        self.out.append(code + "///< " + behind[0])
        self.out += [" " * at + "///< " + text for text in behind[1:]]
        self.comment = []
        return end


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = file.read().splitlines()
    print("\n".join(Filter(sys.argv[1].split("include/")[-1], lines).run()))


if __name__ == "__main__":
    main()
