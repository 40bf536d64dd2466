"""One module for each kind of file that strangers send; the short and the long run use the same targets."""

from importlib import import_module
from pkgutil import iter_modules

from .target import Target

__all__ = ["Target", "every_target"]

KINDS = tuple(sorted(module.name for module in iter_modules(__path__)))


def every_target() -> dict[str, Target]:
    """All targets by name."""
    modules = [import_module(f"{__name__}.{name}") for name in KINDS]
    return {
        target.name: target for module in modules if hasattr(module, "targets") for target in module.targets()
    }
