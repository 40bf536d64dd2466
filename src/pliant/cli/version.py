"""`pliant version`: what is installed, for a bug report or a methods section."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pliant.cli.options import AsJson, Quiet
from pliant.terminal import say
from pliant.version import __version__

_LIBRARIES = (
    "numpy",
    "scipy",
    "numba",
    "opencv-python-headless",
    "pillow",
    "matplotlib",
    "pyarrow",
    "fsspec",
)
_OPTIONAL = {
    "sleap-io": "SLEAP files",
    "roifile": "ImageJ files",
    "s3fs": "s3:// addresses",
    "gcsfs": "gs:// addresses",
    "pydicom": "DICOM images",
    "distributed": "clusters",
    "starlette": "the studio",
    "torch": "training of networks",
}


def version(
    quiet: Quiet = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also show libraries, devices and formats.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the version of pliant, and with --verbose what it runs on.

    The output of --verbose has everything that a bug report or a methods section needs; --json prints the same.
    """
    import json

    if as_json:
        say(json.dumps(_facts(), indent=2))
        return
    say(f"pliant {__version__}")
    if verbose and not quiet:
        for name, value in _facts().items():
            if isinstance(value, dict):
                say(f"{name}:")
                for key, entry in value.items():
                    say(f"  {key:<24}{entry}")
            elif name != "pliant":
                say(f"{name + ':':<26}{value}")


def _is_there(device: str) -> bool:
    """Whether fits could be made on a device here."""
    from pliant.devices import ON_TORCH, find_device

    if device not in ON_TORCH:
        return True
    try:
        find_device(device)
    except ValueError:
        return False
    return True


def _facts() -> dict[str, Any]:
    import platform
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    from pliant.data.formats import formats
    from pliant.settings import DEVICES
    from pliant.threads import cores

    def installed(name: str, otherwise: str) -> str:
        try:
            return version_of(name)
        except PackageNotFoundError:
            return otherwise

    return {
        "pliant": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": cores(),
        "devices": ", ".join(name for name in DEVICES if _is_there(name)),
        "libraries": {name: installed(name, "missing") for name in _LIBRARIES},
        "optional": {
            name: installed(name, f"not installed ({purpose})") for name, purpose in _OPTIONAL.items()
        },
        "formats": {
            name: f"{' '.join(module.EXTENSIONS):<14}{'many images' if module.MANY else 'beside its image'}"
            for name, module in sorted(formats().items())
        },
    }
