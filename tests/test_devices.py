"""Devices that are not there, that have too little memory, and that fail in the middle."""

import sys
from threading import Event

import numpy as np
import pytest

import pliant
from pliant import batch
from pliant.bulk import Task, files, run
from pliant.devices import DeviceFailed, find_device, is_breakdown, is_out_of_memory
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.fitting.looking import Uploads
from pliant.synthetic import write_faces
from pliant.table import rows_of


def test_without_pytorch_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match=r"device=cuda needs PyTorch.*pliant\[experts\].*device=cpu"):
        find_device("cuda")


def test_version_lists_the_devices_that_are_there(monkeypatch):
    from pliant.cli.version import _facts

    monkeypatch.setitem(sys.modules, "torch", None)
    assert _facts()["devices"] == "cpu, reference"


class TestWithPyTorch:
    torch = staticmethod(lambda: pytest.importorskip("torch"))

    def test_without_a_gpu_a_sentence_says_so(self, model, dataset, monkeypatch):
        torch = self.torch()
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(ValueError, match="needs an NVIDIA GPU.*use device=cpu"):
            pliant.fit(model, dataset[:1], "centre", device="cuda")

    def test_what_has_no_room_is_done_in_parts(self, model, dataset, monkeypatch):
        torch, whole, sizes = self.torch(), Fitter._block, []

        def little_room(self, images, starts, threads):
            sizes.append(len(images))
            if len(images) > 2:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
            return whole(self, images, starts, threads)

        monkeypatch.setattr(Fitter, "_block", little_room)
        samples = dataset[:5]
        starts = [sample.points() + 1.0 for sample in samples]
        there = pliant.fit(model, samples, starts, device="torch")
        assert sizes == [5, 2, 3, 1, 2]
        monkeypatch.undo()
        here = pliant.fit(model, samples, starts)
        for one, other in zip(here, there, strict=True):
            np.testing.assert_allclose(one.points, other.points, atol=0.02)

    @pytest.mark.parametrize("jobs", [1, 4])
    def test_blocks_end_where_memory_does(self, model, dataset, monkeypatch, jobs):
        """A large image begins a block, since all of a block get its room; fits stay in order."""
        self.torch()
        samples, sizes, whole = dataset[:7], [], Fitter._block
        images = [sample.image() for sample in samples]
        images[4] = np.concatenate([images[4]] * 3)
        starts = [sample.points() + 1.0 for sample in samples]

        def noting(self, images, starts, threads):
            sizes.append(len(images))
            return whole(self, images, starts, threads)

        monkeypatch.setattr(Fitter, "_block", noting)
        monkeypatch.setattr(batch, "_MOST_BYTES", 3 * max(image.nbytes for image in images[:4]) + 100)
        fitter = make_fitter(model, device="torch", jobs=jobs)
        there = list(batch.fit_all(fitter, zip(images, starts, strict=True)))
        assert sorted(sizes) == [1, 1, 2, 3]
        for one, other in zip(pliant.fit(model, images, starts), there, strict=True):
            np.testing.assert_allclose(one.points, other.points, atol=0.02)

    def test_the_next_images_are_read_while_a_device_fits(self, model, dataset, monkeypatch):
        self.torch()
        later, whole, waited = Event(), Fitter._block, []
        samples = dataset[:12]

        def read(source):
            if source is samples[-1]:
                later.set()
            return source.image()

        def waiting(self, images, starts, threads):
            waited.append(later.wait(20))
            return whole(self, images, starts, threads)

        monkeypatch.setattr(batch, "read", read)
        monkeypatch.setattr(batch, "_BLOCK_ON_DEVICE", 4)
        monkeypatch.setattr(Fitter, "_block", waiting)
        fitter = make_fitter(model, device="torch", iterations=1, jobs=2)
        assert len(list(batch.fit_all(fitter, [(one, one.points()) for one in samples]))) == 12
        assert all(waited)

    def test_images_stay_on_the_device_while_their_block_is_fitted(self, dataset):
        uploads = Uploads(self.torch().device("cpu"))
        images = [sample.image() for sample in dataset[:4]]
        with uploads.holding(images[:3]), uploads.holding(images[3:]):
            some, which = uploads.of([images[2], images[0], images[2]])
            assert which == [2, 0, 2]
            assert uploads.of(images[:3])[0] is some
            assert len(uploads.of(images[3:])[0]) == 1
            assert len(uploads.of(images)[0]) == 4
        assert uploads.of(images[:3])[0] is not some

    def test_lack_of_memory_is_no_breakdown(self):
        torch = self.torch()
        for error in (
            torch.cuda.OutOfMemoryError("CUDA out of memory."),
            RuntimeError("CUDA error: out of memory"),
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            RuntimeError("Triton Error [CUDA]: out of memory"),
        ):
            assert is_out_of_memory(error)
            assert not is_breakdown(error)

    def test_a_device_that_does_not_answer_broke_down(self, monkeypatch):
        torch = self.torch()
        assert is_breakdown(RuntimeError("CUDA error: device-side assert triggered"))
        odd = RuntimeError("Triton Error [CUDA]: device-side assert triggered")
        assert not is_breakdown(odd)
        assert not is_breakdown(ValueError("CUDA error"))

        def broken():
            raise odd

        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "synchronize", broken)
        assert is_breakdown(odd)
        assert not is_breakdown(ValueError("this image is to blame"))

    def test_threads_take_short_turns_while_a_device_fits(self, model, dataset):
        self.torch()
        before, turns = sys.getswitchinterval(), []
        fitter = make_fitter(model, device="torch", iterations=1)
        fits = batch.fit_all(
            fitter,
            [(one, one.points()) for one in dataset[:2]],
            then=lambda number, fit, image: turns.append(sys.getswitchinterval()),
        )
        assert len(list(fits)) == 2
        assert max(turns) < before == sys.getswitchinterval()

    def test_a_device_that_fails_loses_no_finished_fit(self, model, tmp_path, monkeypatch):
        """The run ends, nothing is blamed on images, and it goes on with the CPU."""
        self.torch()
        write_faces(tmp_path, 12, seed=8, image_size=64)
        images = sorted(map(str, tmp_path.glob("*.jpg")))
        monkeypatch.setattr(batch, "_BLOCK_ON_DEVICE", 4)
        monkeypatch.setattr(files, "_BLOCKS", 3)
        whole, blocks = Fitter._block, []

        def failing(self, images, starts, threads):
            blocks.append(len(images))
            if len(blocks) > 2:
                raise RuntimeError("CUDA error: unspecified launch failure")
            return whole(self, images, starts, threads)

        def fit_folder(output, device, **rest):
            fitter = make_fitter(model, iterations=(3, 2), device=device, jobs=1, trace=False)
            task = Task(images, tmp_path / output, {"device": device})
            run(task, fitter, lambda name, image: model_start(model, image), **rest)
            return [(row["image"], row["x"], row["y"]) for row in rows_of(task.table)]

        done: list[object] = []
        monkeypatch.setattr(Fitter, "_block", failing)
        with pytest.raises(DeviceFailed, match="the device 'torch' failed: CUDA error"):
            fit_folder("fits", "torch", each=done.append)
        assert 0 < len(done) < 12
        monkeypatch.setattr(Fitter, "_block", whole)
        rows = fit_folder("fits", "cpu", each=done.append, resume=True)
        assert len(done) == 12
        for (name, *there), (other, *here) in zip(rows, fit_folder("undisturbed", "cpu"), strict=True):
            assert name == other
            np.testing.assert_allclose(there, here, atol=0.02)


def model_start(model, image):
    """The mean shape in the middle of the image."""
    mean = model.levels[-1].shape.mean
    height, width = image.shape[:2]
    return mean - mean.mean(axis=0) + (width / 2, height / 2)
