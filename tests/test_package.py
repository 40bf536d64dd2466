"""Imports point one way, and a model can be read with NumPy alone."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import pliant
import rooms

SOURCE = Path(pliant.__file__).parent

# From the outside in: a layer may import itself and what stands below it. A room may have doors at several heights:
# the values that a model holds are below it, and what needs fits is above them.
LAYERS = [
    {"cli", "__main__"},
    {"studio", "distributed"},
    {"experiments"},
    {"report", "bulk", "morphometrics"},
    {"synthetic", "evaluation", "records", "tracking", "table", "training", "quick"},
    {"trust.calibration"},
    {"tuning"},
    {"batch"},
    {"objects"},
    {"starts.choice"},
    {"starts.scan"},
    {"starts.windows"},
    {"fitting.device_fits"},
    {"fitting.fitter"},
    {"fitting", "building"},
    {"trust.evidence", "trust.mismatch"},
    {"kernels"},
    {"experts.network_learning"},
    {
        "starts.boxes",
        "starts.candidates",
        "starts.filter_learning",
        "starts.learning",
        "starts.noise",
        "starts.wrong",
    },
    {"model"},
    {"store"},
    {"consistency"},
    {"plots", "starts.known"},
    {"inputs", "starts.detectors"},
    {"data"},
    {"starts.filtering", "starts.judging"},
    {"experts.linear_training"},
    {"experts.filter_training", "experts.on_device"},
    {"experts.device_linear", "experts.device_network"},
    {"experts.linear", "experts.network"},
    {"experts.device_patches"},
    {"experts.patches", "experts.windows"},
    {"appearance", "level"},
    {"starts.cells"},
    {"experts.posterior", "experts.visibility"},
    {"experts.frames", "experts.sightings"},
    {"metrics", "starts.found", "starts.placement"},
    {"motion"},
    {"shape"},
    {"experts.maps", "experts.network_training"},
    {"experts.lesson", "experts.onnx_graph"},
    {"experts.network_layers"},
    {
        "container",
        "crew",
        "devices",
        "namespace",
        "shards",
        "pca",
        "progress",
        "threads",
        "trust.confidence",
        "trust.scatter",
        "settings",
        "starts.filters",
    },
    {"arrays", "compiled", "files", "limits", "terminal", "version"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


MODULES = rooms.modules_in(SOURCE)


def rank_of(module: str) -> int | None:
    """The layer of a module, or that of its room; a room with doors at several heights has none itself."""
    room = module.partition(".")[0]
    return RANK.get(module, RANK.get(room))


def imports_of(path: Path) -> set[str]:
    return rooms.imports_of(path, MODULES)


@pytest.mark.parametrize("module", [name for name in MODULES if name])
def test_imports_point_inwards(module):
    own = rank_of(module)
    if own is None:
        assert not imports_of(MODULES[module]), f"{module} stands in no layer"
        return
    upwards = {name for name in imports_of(MODULES[module]) if (rank_of(name) or 0) < own}
    assert upwards <= rooms.COMFORTS.get(module, set())


def test_no_import_goes_round():
    """Neither at the top of files nor later: a module can be understood with what stands below it."""
    graph = {module: imports_of(path) & MODULES.keys() for module, path in MODULES.items()}
    while graph:
        ends = {module for module, found in graph.items() if not found & graph.keys() - {module}}
        assert ends, f"imports go round between some of {', '.join(sorted(graph))}"
        graph = {module: found for module, found in graph.items() if module not in ends}


@pytest.mark.parametrize("kind", [None, "linear_expert", "network_expert"])
def test_a_model_is_read_with_numpy_alone(tmp_path, model, kind, request):
    """Machines that only fit on an accelerator need not have the rest."""
    expert = None if kind is None else request.getfixturevalue(kind)
    replace(model, expert=expert).save(tmp_path / "m.pliant")
    code = f"""
import sys
for name in ("numba", "cv2", "scipy", "PIL", "matplotlib", "typer", "rich", "safetensors", "torch"):
    sys.modules[name] = None
import pliant
model = pliant.load({str(tmp_path / "m.pliant")!r})
assert (model.expert is None) == {kind is None}
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
