"""`pliant studio`: a local web page to annotate with a model's help, check, explore, fit and review."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from pliant.cli.options import AsJson, Quiet, SettingsFile, Verbose, say_settings
from pliant.terminal import counted, say

if TYPE_CHECKING:
    from socket import socket

    from starlette.types import ASGIApp

    from pliant.studio.desk import Studio

_PORT = 8750
_PORTS = 20
"""So many ports are tried if none was given, from the first on."""

Opened = Annotated[
    Path | None,
    typer.Argument(
        help="A folder of images, a manifest, or an annotation file; synthetic faces if not given."
    ),
]
ImageFolder = Annotated[
    Path | None, typer.Option(help="Folder of the images, if they are not beside the landmarks.")
]
ModelFile = Annotated[
    Path | None,
    typer.Option(
        "--model", "-m", help="A model that proposes landmarks until the one learned here is better."
    ),
]
ResultsAt = Annotated[
    Path | None, typer.Option(help="A folder with results of fit, evaluate, track or experiment.")
]
Port = Annotated[
    int | None,
    typer.Option(help=f"The port to listen on. Default: {_PORT}, or the next free one.", min=1, max=65535),
]
Host = Annotated[
    str,
    typer.Option(
        help="The address to listen on. With any address other than 127.0.0.1, pages need the token that is "
        "printed."
    ),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Show everything, but change nothing.")]
Browser = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


def studio(
    context: typer.Context,
    source: Opened = None,
    images: ImageFolder = None,
    model: ModelFile = None,
    results: ResultsAt = None,
    port: Port = None,
    host: Host = "127.0.0.1",
    read_only: ReadOnly = False,
    browser: Browser = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    settings: SettingsFile = None,
) -> None:
    """Annotate with a model's help, fit and review, in a browser.

    The studio runs on this machine, at the address that is printed. Every
    change is saved at once, in the format of the opened files. Press Ctrl-C to
    stop. With --json, the address is printed as JSON before the server starts.
    With --verbose, every request is logged.
    """
    import json
    import secrets
    import webbrowser
    from importlib.util import find_spec

    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise ValueError("the studio needs a web server: pip install 'pliant[studio]'.")
    from pliant.studio.opening import demonstration, open_studio
    from pliant.studio.server import make_app
    from pliant.studio.web.safety import LOOPBACK

    silent = quiet or as_json
    told = (lambda text: None) if silent else say
    if verbose and not silent:
        say_settings(context)
    for given in (source, model, results):
        if given is not None and not given.exists():
            raise ValueError(f"{given}: there is no such file or folder.")
    if source is None and images is not None:
        raise ValueError(
            f"--images {images}: give the annotation file of these images as well, or their folder alone: "
            f"pliant studio {images}."
        )
    if images is not None and not images.is_dir():
        raise ValueError(f"--images {images}: there is no such folder.")
    listening = _listen(host, port)
    with ExitStack() as stack:
        if source is None:
            passing = Path(stack.enter_context(TemporaryDirectory(prefix="pliant-studio-")))
            told(f"no folder given: making synthetic faces and a model of them in {passing}")
            source, model = demonstration(passing, model)
            opened = open_studio(source, model, results, read_only=read_only, demo=True)
        else:
            opened = open_studio(source, model, results, read_only=read_only, images=images)
        stack.callback(opened.close)
        token = "" if host in LOOPBACK else secrets.token_urlsafe(24)
        hosts = (*LOOPBACK, *_names(host))
        address = f"http://{hosts[-1]}:{listening.getsockname()[1]}/" + (f"?token={token}" if token else "")
        if as_json:
            say(json.dumps({"address": address, "images": len(opened.collection)}))
        elif not quiet:
            _welcome(opened, address)
        if browser:
            webbrowser.open(address)
        _serve(make_app(opened, hosts, token), listening, opened.events.end, verbose)
    told("closed: all changes are saved")


def _serve(app: ASGIApp, listening: socket, ending: Callable[[], None], verbose: bool) -> None:
    """Answer requests until Ctrl-C or a signal to end; `ending` comes first, so that no stream has it wait."""
    import signal

    import uvicorn

    class Ending(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            ending()
            super().handle_exit(sig, frame)

    # The server shuts down in order on either signal, and raises it again when it is done: then it is of no use.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    level = "info" if verbose else "warning"
    # The studio is closed by whoever opened it, also if somebody is impatient and presses Ctrl-C twice.
    config = uvicorn.Config(
        app, log_level=level, access_log=verbose, lifespan="off", timeout_graceful_shutdown=2
    )
    Ending(config).run(sockets=[listening])


def _listen(host: str, port: int | None) -> socket:
    """A socket that listens, at the port or at the first that is free."""
    from socket import AF_INET, AF_INET6, SO_REUSEADDR, SOL_SOCKET, socket

    plain = host.strip("[]")
    for number in [port] if port is not None else range(_PORT, _PORT + _PORTS):
        listening = socket(AF_INET6 if ":" in plain else AF_INET)
        listening.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        try:
            listening.bind((plain, number))
            listening.listen(128)
            return listening
        except OSError as error:
            listening.close()
            problem = error.strerror or str(error)
    if port is None:
        raise ValueError(f"no port from {_PORT} to {_PORT + _PORTS - 1} is free on {host}: {problem}.")
    raise ValueError(f"--port {port}: the studio cannot listen there on {host}: {problem}.")


def _names(host: str) -> list[str]:
    """What this machine goes by for those who are to reach it there, the best name last."""
    from socket import gaierror, getaddrinfo, gethostname

    if host not in ("0.0.0.0", "[::]", "::"):  # noqa: S104  Nothing is bound here.
        return [host]
    own = gethostname()
    try:
        return [*sorted({str(found[4][0]) for found in getaddrinfo(own, None)}), own]
    except gaierror:
        return [own]


def _welcome(opened: Studio, address: str) -> None:
    collection = opened.collection
    done = len(collection.finished())
    many = counted(len(collection), "image")
    landmarks = f"landmarks: {collection.format}" if collection.begun.any() else "no landmarks yet"
    say(f"{many} in {collection.name}, {done:,} finished ({landmarks})")
    if collection.read_only:
        say(collection.read_only, colour="yellow")
    say(f"pliant studio is at {address}  (press Ctrl-C to stop)")
