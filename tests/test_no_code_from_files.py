"""No file can run code: pliant unpickles, evaluates and starts nothing, but in a few places that have a reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pliant

SOURCE = Path(pliant.__file__).parent

FORBIDDEN_IMPORTS = {
    *("pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "jsonpickle"),
    *("code", "codeop", "runpy", "ctypes", "cffi", "imp", "yaml", "pty", "pkgutil.resolve_name"),
    *("subprocess", "webbrowser", "multiprocessing"),
    *(
        "socket",
        "socketserver",
        "ssl",
        "ftplib",
        "smtplib",
        "telnetlib",
        "xmlrpc",
        "http.client",
        "http.server",
    ),
    *("urllib.request", "urllib3", "requests", "httpx", "httpx2", "aiohttp", "websockets"),
}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "execfile"}
FORBIDDEN_METHODS = {
    *("os.system", "os.popen", "pandas.read_pickle", "ElementTree.fromstring", "ElementTree.parse"),
    *("importlib.import_module", "import_module", "spec_from_file_location", "exec_module"),
}
FORBIDDEN_PREFIXES = "os.exec", "os.spawn", "os.posix_spawn"
NEEDED_ARGUMENTS = {
    **dict.fromkeys(("np.load", "np.save", "np.lib.format.read_array"), ("allow_pickle", False)),
    **dict.fromkeys(("numpy.load", "numpy.save"), ("allow_pickle", False)),
    "torch.load": ("weights_only", True),
}

ALLOWED = {
    # Our own names, not those of a file.
    ("__init__", "import_module"): "names of pliant are imported when they are first used",
    ("data.formats", "import_module"): "one module for each format",
    ("distributed.connecting", "pkgutil.resolve_name"): "versions of packages",
    # What the user names in a setting, after being told that it is run.
    ("starts.detectors", "importlib.import_module"): "a detector of the user's own",
    ("starts.detectors", "importlib.util.spec_from_file_location"): "a detector of the user's own",
    ("starts.detectors", "spec.loader.exec_module"): "a detector of the user's own",
    # Dask sends functions to workers as pickles; its scheduler is trusted.
    ("distributed.tasks", "pickle"): "work for a cluster",
    ("distributed.flight", "cloudpickle"): "work for a cluster",
    # The studio's own processes, which it starts and talks to through a pipe.
    ("studio.training", "multiprocessing"): "training in a process of its own",
    ("studio.proposing.process", "multiprocessing"): "the apprentice in a process of its own",
    ("studio.proposing.apprentice", "multiprocessing"): "the apprentice in a process of its own",
    # The studio listens; pages are opened with the user's browser.
    ("cli.studio", "socket"): "the port that the studio listens on",
    ("cli.studio", "webbrowser"): "opens the page",
    ("studio.storage.locking", "socket"): "the name of this machine, for the file that locks a data set",
}


def offences(tree: ast.AST) -> Iterator[str]:
    """What a module does that could run code from a file, or reach the network."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (_forbidden(one.name) for one in node.names if _forbidden(one.name))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{one.name}" for one in node.names]
            yield from dict.fromkeys(_forbidden(name) for name in names if _forbidden(name))
        elif isinstance(node, ast.Call):
            name = _dotted(node.func)
            if name in NEEDED_ARGUMENTS:
                argument, value = NEEDED_ARGUMENTS[name]
                given = {one.arg: ast.unparse(one.value) for one in node.keywords}
                if given.get(argument) != str(value):
                    yield f"{name} without {argument}={value}"
            elif (
                name in FORBIDDEN_CALLS
                or any(name == one or name.endswith(f".{one}") for one in FORBIDDEN_METHODS)
                or name.startswith(FORBIDDEN_PREFIXES)
            ):
                yield name


def _dotted(node: ast.expr) -> str:
    """`a.b.c` as text; what is no name, such as the result of a call, is empty."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _forbidden(name: str) -> str:
    """The forbidden module that this name is of, if any."""
    parts = name.split(".")
    wholes = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return next((whole for whole in wholes if whole in FORBIDDEN_IMPORTS), "")


def test_what_could_run_code_is_known():
    """Exactly the places that are listed: one that has gone must leave the list."""
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        found |= {(module, what) for what in offences(ast.parse(path.read_text(encoding="utf-8")))}
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    ("code", "offence"),
    [
        ("import pickle", "pickle"),
        ("from pickle import loads", "pickle"),
        ("def f():\n    import numpy, marshal", "marshal"),
        ("from urllib import request", "urllib.request"),
        ("import urllib.request as r", "urllib.request"),
        ("from http.client import HTTPConnection", "http.client"),
        ("eval(text)", "eval"),
        ("exec(compile(text, '', 'exec'))", "exec"),
        ("importlib.import_module(name)", "importlib.import_module"),
        ("os.system(name)", "os.system"),
        ("os.execv(name, [])", "os.execv"),
        ("np.load(path)", "np.load without allow_pickle=False"),
        ("np.load(path, allow_pickle=True)", "np.load without allow_pickle=False"),
        ("torch.load(path)", "torch.load without weights_only=True"),
        ("ElementTree.parse(path)", "ElementTree.parse"),
    ],
)
def test_offences_are_seen(code, offence):
    assert offence in set(offences(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    ["import json", "re.compile(p)", "np.load(path, allow_pickle=False)", "from urllib.parse import quote"],
)
def test_what_is_harmless_is_let_through(code):
    assert not set(offences(ast.parse(code)))
