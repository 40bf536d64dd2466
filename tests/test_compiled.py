"""Compiled loops without a folder to keep them in, with damaged files in it, and without compilation."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pliant
from pliant.compiled import compiled
from pliant.kernels import basis_pass
from pliant.kernels.basis_pass import LANES

_SAMPLE = """
import numpy as np
from pliant.appearance.interpolation import bilinear
image = np.arange(12, dtype=np.float32).reshape(3, 4, 1)
print(bilinear(image, np.array([[1.5, 1.0]]))[0, 0])
"""


def run(code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(pliant.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": source, **variables}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, timeout=300
    )


def test_without_a_folder_for_compiled_code_it_is_compiled_and_said_once(tmp_path):
    """As in a container whose install and home are read-only. Not even root can make a folder below a file."""
    (tmp_path / "file").touch()
    nowhere = f"""
from numba.core import caching
name = "UserProvidedCacheLocator"  # Older versions of Numba begin it with an underscore.
caching.CacheImpl._locator_classes = [getattr(caching, name, None) or getattr(caching, "_" + name)]
{_SAMPLE}
import pliant.fitting.fitter, pliant.kernels.cpu, pliant.kernels.projected
"""
    done = run(nowhere, NUMBA_CACHE_DIR=str(tmp_path / "file"))
    assert done.stdout == "5.5\n", done.stderr
    [line] = done.stderr.splitlines()
    assert "set NUMBA_CACHE_DIR to a writable folder" in line


def fresh(file: Path) -> Any:
    """The function of a module as a new process would see it: nothing but its files is known."""
    spec = importlib.util.spec_from_file_location("doubling", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.doubled


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_cut_off_file_is_compiled_anew_and_mended(tmp_path, monkeypatch, kind, share):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    file = tmp_path / "doubling.py"
    file.write_text(
        "from pliant.compiled import compiled\n\n@compiled()\ndef doubled(x):\n    return 2 * x\n"
    )
    assert fresh(file)(4) == 8
    [damaged] = tmp_path.rglob(f"*.{kind}")
    content = damaged.read_bytes()
    damaged.write_bytes(content[: int(share * len(content))])
    again = fresh(file)
    assert again(4) == 8
    assert again.stats.cache_misses
    mended = fresh(file)
    assert mended(4) == 8
    assert mended.stats.cache_hits


def test_a_disk_that_is_full_costs_the_cache_alone(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    @compiled()
    def doubled(x):
        return 2 * x

    monkeypatch.setattr(doubled._cache._cache_file, "_save_index", full)
    assert doubled(4) == 8
    assert "No space left on device" in capsys.readouterr().err


_FIT = """
import sys
import numpy as np
import pliant
model, image, start = pliant.load(sys.argv[1]), np.load(sys.argv[2]), np.load(sys.argv[3])
names = ("ssd:map-asy:0.2-gn-sch", "po-inv-gn", "ssd-bid-n-sch")
fits = [pliant.fit(model, [image], [start], algorithm=name, iterations=2, jobs=1)[0] for name in names]
np.save(sys.argv[4], [fit.points for fit in fits])
"""


def test_without_compilation_fits_are_the_same_and_slowness_is_announced(dataset, tmp_path):
    names = ("m.pliant", "image.npy", "start.npy", "plain.npy", "compiled.npy")
    model, image, start, plain, quick = (str(tmp_path / name) for name in names)
    pliant.train(
        dataset, size=12, scales=(1.0,), shape_modes=2, detector=None, progress=False, confidence=False
    ).save(model)
    np.save(image, dataset[0].image())
    np.save(start, dataset[0].points() + 1)
    done = run(_FIT, model, image, start, plain, NUMBA_DISABLE_JIT="1")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "NUMBA_DISABLE_JIT is set" in line]
    assert run(_FIT, model, image, start, quick).returncode == 0
    # Of hypotheses that end at the same place, the last bits decide which one stays.
    np.testing.assert_allclose(np.load(plain), np.load(quick), atol=0.02)


@pytest.mark.parametrize("appearance", [False, True])
def test_sums_by_numpy_are_those_of_vector_instructions(appearance, rng, monkeypatch):
    """Both with slopes, which `pass_with_slopes` calls in either way."""
    vectors, channels = 3, (0, 0)
    A, a = (rng.normal(size=(vectors, 2, LANES)).astype(np.float32) for _ in range(2))
    S = rng.normal(size=(1, vectors, 2, 3, LANES)).astype(np.float32)
    W = rng.normal(size=(vectors, 3, LANES)).astype(np.float32)
    c = rng.normal(size=(1, 1 if appearance else 0)).astype(np.float32)
    starts, corners = np.array([0, vectors], np.int32), np.array([[0, 1, 2]], np.int32)
    outcomes = []
    for plain in (False, True):
        G, E, grown = np.zeros((1, 6, 1)), np.zeros((1, 1)), a.copy()[None]
        arguments = (A.ravel(), starts, corners, W, S, c, grown, G, E, (0, 1), channels)
        function = basis_pass.pass_with_slopes
        if plain:
            pairs = (1, 3, ((0, 0), (0, 1)), ((0, 2),))
            for name, grows in (("_slope_sums", False), ("_slope_sums_and_appearance", True)):
                monkeypatch.setattr(basis_pass, name, basis_pass._interpreted_sums(*pairs, grows))
            monkeypatch.setattr(basis_pass, "_add_at_corners", basis_pass._add_at_corners.py_func)
            function = function.py_func
        function(*arguments)
        outcomes.append((G, E, grown))
    for compiled_one, plain_one in zip(*outcomes, strict=True):
        np.testing.assert_allclose(plain_one, compiled_one, atol=1e-4)


@pytest.mark.parametrize("appearance", [False, True])
def test_sums_by_pixel_are_those_of_numpy(appearance, rng, monkeypatch):
    vectors, channels = 3, (0, 0)
    A, a = (rng.normal(size=(vectors, 2, LANES)).astype(np.float32) for _ in range(2))
    S = rng.normal(size=(1, vectors, 2, 3, LANES)).astype(np.float32)
    c = rng.normal(size=(1, 1 if appearance else 0)).astype(np.float32)
    starts = np.array([0, 1, vectors], np.int32)
    outcomes = []
    for plain in (False, True):
        H, E, grown = np.zeros((1, 1, vectors, 2, LANES), np.float32), np.zeros((1, 1)), a.copy()[None]
        function = basis_pass.pass_by_pixel
        if plain:
            for name, grows in (("_pixel_sums", False), ("_pixel_sums_and_appearance", True)):
                sums = basis_pass._interpreted_sums(1, 3, (), ((0, 2),), grows, ((0, 0), (0, 1)))
                monkeypatch.setattr(basis_pass, name, sums)
            function = function.py_func
        function(A.ravel(), starts, S, c, grown, H, E, (0, 2), channels)
        outcomes.append((H, E, grown))
    for compiled_one, plain_one in zip(*outcomes, strict=True):
        np.testing.assert_allclose(plain_one, compiled_one, atol=1e-4)
    np.testing.assert_allclose(outcomes[0][0][0, 0, :, 0], (A * S[0, :, :, 0]).sum(axis=1), atol=1e-4)
