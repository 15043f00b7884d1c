"""What MkDocs cannot do by itself: pages made from the code, and links that work in the repository and on the site.

The API reference and the examples become pages here, so that no list of them is kept by hand. Pages link to files of the
repository by relative paths; on the site such a link leads to the page that shows the file.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from textwrap import dedent
from typing import Any, NamedTuple

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

# Files of the repository that are pages of the site too.
PROJECT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}

# The modules that programs import from. A name stands on the page of the first one that has it in `__all__`.
PUBLIC_MODULES = [
    "datastream.functions",
    "datastream.state",
    "datastream.window",
    "datastream.connectors.file_system",
    "datastream.connectors.*",
    "datastream.formats.*",
    "datastream.async_retry_strategies",
    "datastream.async_retry_predicates",
    "cep",
    "state_processor",
    "queryable_state",
    "table",
    "metrics",
    "testing",
    "testing.kafka",
    "common.time",
    "common.watermark_strategy",
    "common.serialization",
    "common.serializer_snapshot",
    "common.accumulators",
]
# Those of which the rest stands on a page for each module that defines something of it.
PUBLIC_PACKAGES = ["datastream", "datastream.connectors", "common"]
# Match a pattern above, and are for connectors and formats themselves.
INTERNAL = {
    "formats.arrow_types",
    "formats.csv_schema",
    "formats.csv_text",
    "formats.text_values",
}

_LINK = re.compile(r"(!?\[[^\]]*\])\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
_EXAMPLE = re.compile(r"::\n\n(?P<code>(?:    .*\n|\n)*(?:    .*))")
_ROLE = re.compile(r":(?:class|meth|func|attr|mod|data|exc):`~?([^`]+)`")
_SESSION = re.compile(r"^>>> .*(?:\n(?!\n).+)*", re.M)


# --- the pages of the API reference ---


class Docstrings(griffe.Extension):
    """Makes Markdown of docstrings: fences what follows `Example::` and interactive sessions, and drops Sphinx's roles."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = _EXAMPLE.sub(lambda match: f":\n\n{_fenced(match['code'])}", _ROLE.sub(r"`\1`", obj.docstring.value))
            obj.docstring.value = text if ">>>" not in text or "```" in text else _SESSION.sub(_session, text)


def _fenced(code: str) -> str:
    language = "pycon" if ">>>" in code else "python"
    return f"```{language}\n{dedent(code).rstrip()}\n```\n"


def _session(match: re.Match[str]) -> str:
    return _fenced(match[0])


class ApiPage(NamedTuple):
    imported_from: str
    targets: list[griffe.Object]


@cache
def api_pages() -> dict[str, ApiPage]:
    """What each page of the reference documents, by the page's module."""
    flintstream = griffe.load("flintstream", search_paths=[str(ROOT / "src")], allow_inspection=False)
    seen: set[str] = set()
    pages: dict[str, ApiPage] = {}
    modules = _modules(flintstream)
    for module in modules + [flintstream[package] for package in PUBLIC_PACKAGES]:
        for name in module.exports or []:
            member = module[str(name)]
            target = member.final_target if member.is_alias else member
            if target.path not in seen and not target.is_module:
                seen.add(target.path)
                page = module.path if module in modules else target.module.path
                pages.setdefault(page, ApiPage(module.path, [])).targets.append(target)
    return pages


def _modules(flintstream: griffe.Module) -> list[griffe.Module]:
    found = []
    for pattern in PUBLIC_MODULES:
        package, _, last = pattern.rpartition(".")
        if last == "*":
            members = flintstream[package].modules
            names = [f"{package}.{name}" for name in sorted(members)]
            found += [flintstream[name] for name in names if name.removeprefix("datastream.") not in INTERNAL]
        else:
            found.append(flintstream[pattern])
    return found


def _api_page(module: str, page: ApiPage) -> str:
    public = {target.path for page in api_pages().values() for target in page.targets}
    parts = [f"---\ntitle: {module.rpartition('.')[2]}\n---\n\n# {module}\n\nImport from `{page.imported_from}`.\n"]
    for target in page.targets:
        parts.append(f"::: {target.path}")
        inherited = _from_private_bases(target, public)
        if inherited:
            parts.append(f"    options:\n      inherited_members: [{', '.join(inherited)}]")
        parts.append("")
    return "\n".join(parts)


def _from_private_bases(target: griffe.Object, public: set[str]) -> list[str]:
    """The methods that a class has from a base which has no place in the reference."""
    if not isinstance(target, griffe.Class):
        return []
    members = target.inherited_members.items()
    return [name for name, member in members if not name.startswith("_") and member.target.parent.path not in public]


def _api_place(module: str) -> str:
    return f"api/{module.removeprefix('flintstream.').replace('.', '/')}.md"


def _api_index() -> str:
    lines = ["# API reference\n", "The public names, by module. Each page says where to import from.\n"]
    for module, page in sorted(api_pages().items(), key=lambda item: (".datastream." not in item[0], item[0])):
        lines += [f"\n## [{module}]({relpath(_api_place(module), 'api')})\n", "| | |", "| --- | --- |"]
        lines += [f"| [`{target.name}`][{target.path}] | {_summary(target)} |" for target in page.targets]
    return "\n".join(lines) + "\n"


def _summary(target: griffe.Object) -> str:
    text = target.docstring.value if target.docstring is not None else ""
    return _ROLE.sub(r"`\1`", " ".join(text.split("\n\n")[0].split())).removesuffix("::").replace("|", "\\|")


# --- the examples ---


def examples() -> dict[str, str]:
    """The first sentence of each example's docstring, by its name."""
    paths = sorted((ROOT / "examples").glob("[!_]*.py"))
    return {path.stem: _docstring(path) for path in paths}


def _docstring(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0].replace("\n", " ")


def _example_page(path: Path) -> str:
    return f"# {path.name}\n\n    flint demo {path.stem}\n\n```python\n{path.read_text(encoding='utf-8')}```\n"


def _example_index() -> str:
    rows = [f"| [{name}.py]({name}.md) | {text} |" for name, text in examples().items()]
    head = "# Examples\n\nWhole programs, each of them tested, and each a command: `flint demo page_views`.\n\n"
    return head + "| program | shows |\n| --- | --- |\n" + "\n".join(rows) + "\n"


# --- what MkDocs calls ---


@cache
def generated() -> dict[str, str]:
    """The pages that are made here, by their places on the site."""
    pages = {"api/index.md": _api_index(), "examples/index.md": _example_index()}
    pages |= {_api_place(module): _api_page(module, page) for module, page in api_pages().items()}
    pages |= {f"examples/{path.stem}.md": _example_page(path) for path in (ROOT / "examples").glob("*.py")}
    return pages | {site: (ROOT / path).read_text(encoding="utf-8") for path, site in PROJECT_PAGES.items()}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    docs = Path(config.docs_dir)
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} | set(generated())
    named = {page for page in _entries(config.nav) if "*" not in page}
    config.nav = _expanded(config.nav, sorted(pages - named))
    return config


def _entries(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [entry for part in parts for entry in _entries(part)]


def _expanded(nav: list[Any], pages: list[str]) -> list[Any]:
    """The navigation with each pattern replaced by the pages that it stands for."""
    result: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            result += [
                {key: _expanded(value, pages) if isinstance(value, list) else value for key, value in entry.items()}
            ]
        elif "*" in entry:
            result += [page for page in pages if PurePosixPath(page).match(entry)]
        else:
            result.append(entry)
    return result


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for place, content in generated().items():
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri
    if here.startswith(("api/", "examples/")):
        return markdown
    in_repository = {site: path for path, site in PROJECT_PAGES.items()}.get(here, f"docs/{here}")

    def on_site(match: re.Match[str]) -> str:
        text, target, anchor = match.groups(default="")
        path = normpath(f"{PurePosixPath(in_repository).parent}/{target}")
        if target.endswith(".svg"):  # Inline, a picture takes the colours of the page.
            # In a block of its own: Markdown would put line breaks into an inline one, with which it ends in a browser.
            return f"<div>\n{(ROOT / path).read_text(encoding='utf-8')}</div>"
        place = _place(path)
        if place is None:
            return text.removeprefix("[").removesuffix("]") if (ROOT / path).exists() else match[0]
        return f"{text}({relpath(place, PurePosixPath(here).parent)}{anchor})"

    return _LINK.sub(on_site, markdown)


def _place(path: str) -> str | None:
    """Where the site shows a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path == "examples":
        return "examples/index.md"
    if path.startswith("examples/"):
        return f"examples/{PurePosixPath(path).stem}.md"
    return PROJECT_PAGES.get(path)
