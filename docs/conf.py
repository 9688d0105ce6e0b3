"""The documentation as a site: `scripts/docs` builds it, and fails on every warning."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from pygments.formatters import HtmlFormatter
from sphinx import addnodes
from sphinx.highlighting import PygmentsBridge

from gpu_rsfd import __version__

HERE = Path(__file__).parent
MADE = HERE / "_generated"
sys.path.insert(0, str(HERE))
from tables import TABLES  # noqa: E402

NOTEBOOKS = ("paper_figure", "choose_a_protocol")
COMMANDS = ("sweep", "attack", "rounds", "run", "paper", "merge", "show", "plot", "page", "plan", "data", "protocols",
            "aggregate", "rehearse", "doctor")  # fmt: skip

project, author, release = "gpu-rsfd", "The gpu-rsfd authors", __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "attrs_inline"]
html_math_renderer = "mathml"  # which browsers draw by themselves: no script, nothing from a network
napoleon_google_docstring = False
napoleon_preprocess_types = True
napoleon_use_param, napoleon_use_rtype, napoleon_use_ivar = False, False, True
html_theme = "furo"
pygments_dark_style = "a11y-high-contrast-dark"
html_static_path, html_css_files = ["static"], ["site.css"]
html_title = f"gpu-rsfd {release}"
html_show_copyright = False
exclude_patterns = ["_build", "pypi.md"]
myst_heading_anchors = 4
smartquotes_action = "q"  # quotation marks alone: --option has two hyphens
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
# Every documented name, without and with its module.
DOCUMENTED = {
    name.rpartition(".")[2]: name for name in re.findall(r":: ([\w.]+)", (HERE / "api.md").read_text("utf-8"))
}
SEPARATOR = "\u2063"  # instead of a blank, at which Sphinx would cut "n, d" into a type and a name
MOVED = {  # links of files outside docs/ that are pages here
    "](docs/": "](",
    "![The page in dark](page-dark.png)": "",
    "[examples](examples)": "[](_generated/choose_a_protocol.md), [](_generated/paper_figure.md)",
    "](CONTRIBUTING.md": "](contributing.md",
    "](CHANGELOG.md": "](changelog.md",
    "](benchmarks/README.md": "](benchmarks.md",
}


def take_in(_app: Any, _page: str, source: list[str]) -> None:
    """`<<README.md>>` in a page stands for that file of the repository, its links as they are here."""

    def text(place: re.Match[str]) -> str:
        found = (HERE.parent / place[1]).read_text("utf-8")
        for old, new in MOVED.items():
            found = found.replace(old, new)
        return re.sub(r"(?<![\w`/])docs/([\w-]+\.md)", lambda page: _titled(page[1], page[0]), found)

    source[0] = re.sub(r"<<([\w/.]+)>>", text, source[0])
    both = r"\1{.only-light}![The page](page-dark.png){.only-dark}"
    source[0] = re.sub(r"(!\[[^\]]*\]\(page-light\.png\))", both, source[0])


def _titled(page: str, otherwise: str) -> str:
    """A link whose text is the title of the page, if there is such a page."""
    return f"[]({page})" if (HERE / page).exists() else otherwise


def escaped(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with `code` and sections: stars and bars are no markup, names and pages are links."""

    def shown(part: str) -> str:
        if not part.startswith("`"):
            return re.sub(r"docs/([\w-]+)\.md", r":doc:`\1`", re.sub(r"([\\*|])", r"\\\1", part))
        name = part.strip("`")
        first, dot, rest = name.removeprefix("gpu_rsfd.").partition(".")
        known = first in DOCUMENTED and not part.startswith("``")
        return f":py:obj:`{name} <{DOCUMENTED[first]}{dot}{rest}>`" if known else f"``{name}``"

    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``[^`]+``|`[^`]+`)", line)
            lines[i] = "".join(map(shown, parts))


def together(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Attributes that are described together stay so."""
    for i, line in enumerate(lines):
        if line.startswith((":ivar ", ":vartype ")):
            names, colon, rest = line.rpartition(":") if line.endswith(":") else line.partition(": ")
            lines[i] = names.replace(", ", f",{SEPARATOR}") + colon + rest


def signature(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, text: str | None, returns: str | None
) -> Any:
    """Without the default values that are long, or no code."""
    if not text:
        return None
    if "<factory>" in text:
        return "", returns
    text = re.sub(r"PrivacySettings\([^)]+\)", "PrivacySettings()", text)
    text = re.sub(r"epsilons=\([\d., ]+\)", "epsilons=(ln2, ..., ln7)", text)
    return re.sub(r"<built-in function (\w+)>", r"\1", text), returns


def left_out(_app: Any, _what: str, _name: str, member: Any, _skip: bool, _options: Any) -> bool | None:
    """The fields of named tuples, whose docstrings only number them."""
    return True if (getattr(member, "__doc__", None) or "").startswith("Alias for field number") else None


def linked(_app: Any, document: Any) -> None:
    """Documented types are links, other words are words.  NumPy's types are short."""
    for node in list(document.findall(addnodes.pending_xref)):
        if node.get("refdomain") != "py" or node["reftarget"].startswith("gpu_rsfd."):
            continue
        name = DOCUMENTED.get(node["reftarget"].rpartition(".")[2])
        if _within(node, addnodes.desc_signature):
            if not node["reftarget"][:1].isupper():
                node.replace_self(node.children)
        elif name and (node["reftarget"][:1].isupper() or _within(node, addnodes.seealso)):
            node["reftarget"] = name
        else:
            node.replace_self(nodes.Text(node.astext()))
    signed = (addnodes.desc_annotation, addnodes.desc_returns, addnodes.desc_sig_element)
    for node in list(document.findall(lambda n: isinstance(n, signed))):
        old = node.astext().removeprefix(" -> ")
        text = re.sub(r"_Buffer \| .*?bytes \| str\]", "array_like", old)
        text = re.sub(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+)\]\]", r"array of \1", text)
        text = re.sub(r"npt\.NDArray\[(?:np\.)?(\w+)\]", r"array of \1", text)
        if text != old:
            node.children = [nodes.Text(text)]
    for fields in document.findall(nodes.field_list):
        for node in list(fields.findall(nodes.Text)):
            text = node.replace(SEPARATOR, " ").replace(" -- ", " – ")
            node.parent.replace(node, nodes.Text("Attributes" if text == "Variables" else text))
    for node in document.findall(nodes.literal):
        text, cell = node.astext(), _within(node, nodes.entry)
        if len(text) <= (29 if cell else 40):
            node["classes"].append("whole-if-wide" if cell and len(text) > 16 else "whole")
        elif not cell and max(map(len, text.split())) <= 40:
            node["classes"].append("whole-words")


def _kept(text: str) -> str:
    """Numbers on one line with their % sign, their ± or ln, and the letters that equal them: d = k = 10."""
    return re.sub(
        r"(?<=\d) (?=%)|(?<=[=±]) (?=\d|\w = |ln \d)|(?<=\b\w) (?== (?:\d|\w = ))|(?<=\w) (?== ln \d)|(?<=\bln) (?=\d)",
        "\N{NO-BREAK SPACE}",
        text,
    )


def unbroken(_app: Any, document: Any) -> None:
    """What stays on one line: numbers with what belongs to them, and a formula with its full stop."""
    for node in list(document.findall(nodes.Text)):
        code = isinstance(node.parent, (nodes.literal, nodes.FixedTextElement))
        if not code and (text := _kept(node)) != node:
            node.parent.replace(node, nodes.Text(text))
    for node in list(document.findall(nodes.math)):
        after = node.next_node(descend=False, siblings=True)
        if isinstance(after, nodes.Text) and (mark := re.match("[.,;:)]+", after)):
            place = next(i for i, child in enumerate(node.parent) if child is after)  # others may have the same text
            node.parent[place] = nodes.Text(after[mark.end() :])
            node.replace_self(nodes.inline("", "", node.deepcopy(), nodes.Text(mark[0]), classes=["kept"]))


def _within(node: Any, kind: type) -> bool:
    """Whether a node is part of one of this kind, such as a table's cell."""
    while node is not None and not isinstance(node, kind):
        node = node.parent
    return node is not None


class Lines(HtmlFormatter):  # type: ignore[type-arg]
    """Every line of code is an element: what is wrapped of it is indented, and not taken for a line of its own."""

    def wrap(self, source: Any) -> Any:
        return super().wrap((kind, self._line(text)) for kind, text in source)

    def _line(self, text: str) -> str:
        plain = re.sub("<[^>]*>", "", text)
        hang = len(plain) - len(plain.lstrip(" ")) + 4
        # an option is broken neither after a hyphen nor from its value
        option = r"(?<![\w-])--\w[\w-]*(?: (?!-)[^\s<]{1,40}(?![^\s<]))?"
        text = re.sub(option, r'<span class="option">\g<0></span>', text)
        return f'<span class="line" style="--hang: {hang}ch">{text}</span>'


def mathml(translator: Any, node: Any) -> None:
    """A formula as MathML, made when the site is built."""
    block = not isinstance(node, nodes.math)
    text = re.sub(r"\\math(?:rm|it)\{(\w+)\}", r"\\text{\1}", node.astext())  # else slanted, or spaced
    text = re.sub(r"(?<=\w) \\ln", r"\\,\\ln", re.sub(r"\\ln (?=\w)", r"\\ln\\,", text))  # w ln k, not wlnk
    if _within(node, nodes.entry):
        text = text.replace(r"\frac", r"\dfrac")  # there is room in a table
    formula = convert(text, display="block" if block else "inline")
    formula = formula.replace("<msup><mi>&#x003B5;</mi><mi>&#x02032;</mi></msup>", "<mi>&#x1D700;&#x02032;</mi>")
    translator.body.append(f'<div class="math">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def made(name: str, text: str) -> None:
    """Written only if it differs, so that Sphinx reads it again only then."""
    target = MADE / name
    target.parent.mkdir(exist_ok=True)
    if not target.exists() or target.read_text("utf-8") != text:
        target.write_text(text, "utf-8")


def write_commands(_app: Any) -> None:
    """Every command's --help, as it is."""
    environment = {**os.environ, "COLUMNS": "86", "NO_COLOR": "1", "TERM": "dumb"}
    parts = ["# Commands\n"]
    for command in COMMANDS:
        words = [sys.executable, "-m", "gpu_rsfd", command, "--help"]
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
        text = " " + done.stdout.replace("python -m gpu_rsfd", "gpu-rsfd").strip()
        parts.append(f"## gpu-rsfd {command}\n\n```text\n{text}\n```\n")
    made("commands.md", "\n".join(parts))


def write_plan(_app: Any) -> None:
    """What `plan` says of the table of the examples, but for its last table, of all protocols and epsilons."""
    words = [sys.executable, "-m", "gpu_rsfd", "plan", "--dataset", "examples/people.csv", "--bins", "age=8"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=HERE.parent)
    made("plan.txt", _kept(done.stdout.partition("\nexpected errors")[0]) + "\n")


def write_tables(_app: Any) -> None:
    """What pages include: tables that follow from declarations."""
    for name, table in TABLES.items():
        made(f"{name}.inc", table() + "\n")


def write_notebooks(_app: Any) -> None:
    """The notebooks as pages, with their outputs."""
    for name in NOTEBOOKS:
        notebook = json.loads((HERE.parent / "examples" / f"{name}.ipynb").read_text("utf-8"))
        parts = []
        for number, cell in enumerate(notebook["cells"]):
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                parts.append(source.replace("](../docs/", "](../"))
                continue
            parts.append(f"```python\n{source}\n```")
            parts += [_shown(output, f"{name}-{number}") for output in cell["outputs"]]
        parts.insert(1, f"This page is the notebook `examples/{name}.ipynb`.")
        made(f"{name}.md", "\n\n".join(parts) + "\n")


def _shown(output: dict[str, Any], name: str) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        (MADE / f"{name}.png").write_bytes(base64.b64decode("".join(data["image/png"])))
        return f"![The figure that is drawn]({name}.png)"
    if "text/html" in data:
        wrapped = (
            '<div class="table-wrapper container"><table class="docutils">'  # which scrolls where there is no room
        )
        table = "".join(data["text/html"]).replace("<table>", wrapped)
        return f"```{{raw}} html\n<div class='notebook'>{table.replace('</table>', '</table></div>')}</div>\n```"
    return f"```text\n{''.join(output.get('text') or data['text/plain']).rstrip()}\n```"


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", escaped, priority=100)  # before the sections are read
    app.connect("autodoc-process-docstring", together, priority=900)  # after that
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-skip-member", left_out)
    PygmentsBridge.html_formatter = Lines
    app.add_html_math_renderer("mathml", (mathml, None), (mathml, None))
    app.connect("doctree-read", unbroken)
    app.connect("doctree-read", linked)
    for write in (write_commands, write_plan, write_tables, write_notebooks):
        app.connect("builder-inited", write)
    app.connect("source-read", take_in)
