"""Settings: checked, changed, written and read again, and the same in Python and on the command line."""

import inspect
import json
import pickle
from copy import copy
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pliant
from pliant.cli.options import in_flags
from pliant.settings import Evaluating, Fitting, Starting, Stopping, Tracking, Training
from pliant.settings.declaring import options

KINDS = [Training, Fitting, Starting, Evaluating, Tracking, Stopping]

modes = st.one_of(st.integers(0, 99), st.floats(0.01, 0.99), st.just("all"))
trainings = st.builds(
    Training,
    size=st.floats(8, 2000),
    shape_modes=st.one_of(modes, st.tuples(modes, modes)),
    appearance_modes=st.one_of(modes, st.tuples(modes, modes)),
    features=st.text(max_size=5),
    colour=st.booleans(),
    triangles=st.one_of(st.none(), st.just([[0, 1, 2], [1, 2, 3]])),
    mirror=st.one_of(st.booleans(), st.just([[0, 1]])),
    detector=st.sampled_from([None, "auto", "haar-face"]),
    licence=st.text(st.characters(blacklist_categories=["Cs"])),
    seed=st.integers(0, 9),
)
fittings = st.builds(
    Fitting,
    start=st.sampled_from(["auto", "scan", "landmarks"]),
    fallback=st.sampled_from([None, "centre"]),
    iterations=st.one_of(st.none(), st.integers(1, 50), st.tuples(st.integers(1, 9), st.integers(1, 9))),
    stopping=st.builds(Stopping, patience=st.one_of(st.none(), st.integers(1, 9)), clamp=st.booleans()),
    sampling=st.floats(0.01, 1),
)


class TestPlainForm:
    @given(settings=st.one_of(trainings, fittings))
    def test_through_json_and_back(self, settings):
        plain = json.loads(json.dumps(settings.to_dict()))
        assert type(settings).from_dict(plain) == settings

    @given(settings=st.one_of(trainings, fittings))
    def test_through_toml_and_back(self, settings, tmp_path_factory):
        file = tmp_path_factory.mktemp("toml") / "s.toml"
        settings.save(file)
        assert type(settings).load(file) == settings

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_default_value_is_written_whole(self, kind):
        plain = kind().to_dict()
        given = {name for name, value, _, _ in options(kind()) if value not in (None, (), "")}
        missing = given - plain.keys()
        assert not missing

    def test_a_function_is_written_by_its_name(self):
        def mine(image):
            return []

        assert Training(detector=mine).to_dict()["detector"] == "mine"

    def test_settings_of_the_first_version_are_read(self, tmp_path):
        (tmp_path / "old.toml").write_text(
            '[train]\nsources = ["faces"]\noutput = "m.pliant"\nsize = 120\nscales = [0.5, 1]\n'
            "appearance-variance = [0.8, 1.0]\n"
        )
        read = Training.load(tmp_path / "old.toml")
        assert (read.size, read.appearance_modes) == (120, (0.8, "all"))
        assert Training.from_dict({"appearance_variance": 1}).appearance_modes == (1,)

    def test_what_is_not_there_gets_a_sentence(self, tmp_path):
        with pytest.raises(ValueError, match="there is no such file"):
            Training.load(tmp_path / "none.toml")
        (tmp_path / "other.toml").write_text("[fit]\nsampling = 2\n")
        with pytest.raises(ValueError, match=r"this file has no table \[train\]"):
            Training.load(tmp_path / "other.toml")
        with pytest.raises(ValueError, match=r"other.toml: sampling=2: it must be a share"):
            Fitting.load(tmp_path / "other.toml")
        with pytest.raises(ValueError, match="no setting 'shape-mode'. Did you mean 'shape_modes'"):
            Training.from_dict({"shape-mode": 3})
        assert Training.from_dict({"from_the_future": 3}, ignore_unknown=True) == Training()


class TestNames:
    """Who misspells a setting is told which one was meant, however it was given."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_an_unknown_name_is_a_sentence(self, kind):
        first = fields(kind)[0].name
        with pytest.raises(TypeError, match=rf"^there is no setting '{first}e'\. Did you mean '{first}'\?$"):
            kind(**{f"{first}e": 3})
        with pytest.raises(TypeError, match=r"^there is no setting 'zzzz'\. Known settings: "):
            kind(zzzz=3)
        assert first in inspect.signature(kind).parameters
        assert pickle.loads(pickle.dumps(kind())) == copy(kind()) == kind()

    def test_what_only_a_command_can_do_is_told_in_python(self, dataset):
        with pytest.raises(
            TypeError, match=r"'hold_out'\. To hold samples out: .* = dataset\.split\(0\.2\)\.$"
        ):
            pliant.train(dataset, hold_out=0.2)


class TestChecks:
    @pytest.mark.parametrize("kind", KINDS)
    def test_values_are_frozen_and_can_be_keys(self, kind):
        with pytest.raises(FrozenInstanceError):
            setattr(kind(), fields(kind)[0].name, 1)
        assert {kind(): 1}[kind()] == 1

    @pytest.mark.parametrize(
        ("given_modes", "kept"),
        [
            (1, (1,)),
            (0.75, (0.75,)),
            ("75%", (0.75,)),
            ("all", ("all",)),
            ([3, 0.9], (3, 0.9)),
            (np.int64(4), (4,)),
        ],
    )
    def test_a_count_and_a_share_are_told_apart(self, given_modes, kept):
        found = Training(appearance_modes=given_modes).appearance_modes
        assert found == kept
        assert [type(one) for one in found] == [type(one) for one in kept]

    @pytest.mark.parametrize("wrong", [1.0, 1.5, 0.0, -1, True, "most", "150%", [3, 1.0]])
    def test_what_could_be_either_is_refused(self, wrong):
        with pytest.raises(ValueError, match="appearance_modes=.*a count .* a share of the variance below 1"):
            Training(appearance_modes=wrong)

    def test_changes_are_checked_and_named(self):
        assert Training().changed(size=30) == Training(size=30)
        with pytest.raises(TypeError, match="no setting 'shape_mode'. Did you mean 'shape_modes'"):
            Training().changed(shape_mode=3)
        with pytest.raises(TypeError, match="no setting 'iteration'. Did you mean 'iterations'"):
            Fitting().changed(iteration=3)

    def test_arrays_are_taken_as_well(self):
        settings = Training(size=np.float32(90), triangles=np.array([[0, 1, 2]]), scales=np.array([0.5, 1]))
        assert settings == Training(size=90, triangles=[[0, 1, 2]], scales=(0.5, 1.0))

    def test_stopping_is_a_value_of_its_own(self):
        with pytest.raises(ValueError, match=r"stopping=3: it must be Stopping\(\.\.\.\)"):
            Fitting(stopping=3)


class TestCommands:
    """Options are made from settings: none is missing, none is spelt twice."""

    @pytest.mark.parametrize(
        ("name", "kind", "own"),
        [
            ("train", Training, set()),
            ("fit", Fitting, set()),
            ("evaluate", Fitting, set()),
            ("evaluate", Evaluating, set()),
            ("track", Tracking, set()),
        ],
    )
    def test_every_setting_is_an_option(self, name, kind, own):
        from pliant import cli

        parameters = inspect.signature(getattr(cli, name)).parameters
        for setting, default, _, _ in options(kind()):
            if setting in own:
                continue
            assert setting in parameters, f"--{setting} of {name}"
            if name != "evaluate" or setting != "start":
                shown = parameters[setting].default
                assert isinstance(default, bool) == isinstance(shown, bool)

    def test_sentences_of_the_library_are_told_in_flags(self):
        names = {"tries": "--tries", "skip_invalid": "--skip-invalid", "format": "--from"}
        assert in_flags("tries=0: it must be 1.", names) == "--tries 0: it must be 1."
        assert (
            in_flags("give skip_invalid=True, or format=csv", names) == "give --skip-invalid, or --from csv"
        )
        assert in_flags("skip_invalid=True cannot", names) == "--skip-invalid cannot"
        assert (
            in_flags("s3://bucket/tries=3/a.png: gone; other=3", names)
            == "s3://bucket/tries=3/a.png: gone; other=3"
        )

    def test_python_and_the_command_find_the_same_fits(self, calibrated, face_folders, command, tmp_path):
        """Where in doubt, both look again: a detector that points beside the object leaves everything to a scan."""
        calibrated.save(tmp_path / "m.pliant")
        file = replace(calibrated, placements=())  # nothing but a scan
        file.save(tmp_path / "m.pliant")
        (tmp_path / "fit.toml").write_text("[fit]\nstart = 'auto'\niterations = [3, 2]\nrescan-below = 0.9\n")
        command(
            "fit", tmp_path / "m.pliant", face_folders / "test", "-o", tmp_path / "out", "--settings",
            tmp_path / "fit.toml", "-q",
        )  # fmt: skip
        table = pliant.read_fits(tmp_path / "out")
        settings = Fitting.load(tmp_path / "fit.toml")
        fits = pliant.fit(pliant.load(tmp_path / "m.pliant"), list(table["image"]), settings=settings)
        for k, fit in enumerate(fits):
            np.testing.assert_allclose(fit.points, table["points"][k], atol=1e-4)
            assert fit.confidence() == pytest.approx(table["confidence"][k], abs=1e-4)


class TestChain:
    @pytest.mark.filterwarnings("ignore::pliant.NotFitted")
    def test_fit_scans_where_nothing_was_found(self, calibrated, dataset):
        """A detector that is blind: by the next way, the object is found all the same."""

        def blind(image):
            return np.zeros((0, 4))

        learned = replace(calibrated.placements[0], reference="blind")
        model = replace(calibrated, placements=(learned,))
        found = pliant.fit(model, dataset[0], detector=blind)
        assert found.ok
        assert found.confidence() > 0
        asked = pliant.fit(model, dataset[0], "detector", detector=blind)
        # Who asks for a way gets that way.
        assert (asked.status, asked.reason) == ("failed", "the detector blind found nothing.")


class TestTraining:
    def test_train_learns_confidence_as_the_command_does(self, dataset):
        model = pliant.train(dataset[:12], size=30, scales=1.0, shape_modes=2, detector=None, progress=False)
        assert model.confidence is not None
        assert (
            pliant.train(dataset[:9], size=30, scales=1.0, shape_modes=2, progress=False).confidence is None
        )

    def test_a_model_is_there_if_confidence_cannot_be_learned(self, dataset):
        """All samples of one person: nothing can be held out."""
        one = pliant.Dataset(tuple(replace(sample, group="one") for sample in dataset[:12]), "one person")
        with pytest.warns(pliant.NotCalibrated, match="how far fits can be trusted is not learned"):
            model = pliant.train(one, size=30, scales=1.0, shape_modes=2, detector=None, progress=False)
        assert model.confidence is None

    def test_a_model_file_says_no_place_of_a_detector(self, dataset, tmp_path):
        (tmp_path / "mine.py").write_text("def box(image):\n    return [[0, 0, *image.shape[1::-1]]]\n")
        model = pliant.train(
            dataset[:6],
            size=30,
            scales=1.0,
            shape_modes=2,
            detector=f"{tmp_path}/mine.py:box",
            progress=False,
        )
        model.save(tmp_path / "m.pliant")
        assert pliant.load(tmp_path / "m.pliant").settings.detector == "box"
        assert str(tmp_path).encode() not in (tmp_path / "m.pliant").read_bytes()
