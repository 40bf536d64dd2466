"""Imports point one way, and a model can be read with NumPy alone."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pliant

SOURCE = Path(pliant.__file__).parent

# From the outside in: a layer may import itself and what stands below it.
LAYERS = [
    {"cli", "__main__"},
    {"experiments"},
    {"report", "bulk"},
    {"plots", "synthetic", "evaluation", "calibration", "tracking"},
    {"fitting", "training", "store", "consistency"},
    {"kernels"},
    {"model", "detectors"},
    {"data"},
    {"appearance"},
    {"motion", "metrics", "placement"},
    {"shape"},
    {"pca", "progress", "threads", "confidence"},
    {"arrays", "compiled", "files", "terminal", "version"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def imports_of(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= (
                {node.module} if node.module != "pliant" else {f"pliant.{alias.name}" for alias in node.names}
            )
    return {name.split(".")[1] for name in names if name.startswith("pliant.") and name.split(".")[1] in RANK}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_inwards(path):
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own == "__init__":
        return
    upwards = {name for name in imports_of(path) if RANK[name] < RANK[own]}
    # Saving and plotting are methods for the user's comfort; the import waits until they are called.
    comforts = {"model.py": {"store", "plots"}, "result.py": {"plots"}, "dataset.py": {"plots"}}
    assert upwards <= comforts.get(path.name, set())


def test_a_model_is_read_with_numpy_alone(tmp_path, model):
    """Machines that only fit on an accelerator need not have the rest."""
    model.save(tmp_path / "m.pliant")
    code = f"""
import sys
for name in ("numba", "cv2", "scipy", "PIL", "matplotlib", "typer", "rich", "safetensors"):
    sys.modules[name] = None
import pliant
model = pliant.load({str(tmp_path / "m.pliant")!r})
level = model.levels[-1]
print(level.motion.positions(level.shape.instance(level.shape.project(level.shape.mean))).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_public_names_exist():
    for name in pliant.__all__:
        assert getattr(pliant, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pliant.nothing
