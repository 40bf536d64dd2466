"""Superimposition, sliding and analysis of variance: properties, and numbers that R computed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pliant.morphometrics import (
    centroid_size,
    procrustes_anova,
    read_sliders,
    sliders_of_curves,
    superimpose,
)
from pliant.morphometrics.sliders import checked_sliders, write_sliders
from pliant.morphometrics.sliding import bending_matrix, slid, tangents_of
from pliant.shape.variance import procrustes_variance

SLIDERS = np.array([[0, 1, 2], [1, 2, 3], [4, 5, 6]])
ANGLES = np.linspace(0, 2 * np.pi, 9)[:-1]


def six_shapes():
    """Shapes `(6, 8, 2)` of different place, size and rotation, without random numbers, for R to have the same."""
    lifted = np.array([0, 8, 0, 0, 0, -5, 0, 0])
    base = np.stack([100 * np.cos(ANGLES), 60 * np.sin(ANGLES) + lifted], axis=-1)
    k, v, axis = np.arange(6)[:, None, None], np.arange(8)[:, None], np.arange(2)
    bumps = 6 * np.sin(1.7 * (k + 1) * (v + 2) + 2.3 * axis + k * k)
    turns = np.array([[[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]] for t in 0.3 * np.arange(6)])
    return (1 + 0.1 * k) * ((base + bumps) @ turns) + 200


def repeated_shapes():
    """Five individuals, two sides, two measurements of each: shapes `(5, 2, 2, 8, 2)`."""
    base = np.stack([100 * np.cos(ANGLES), 60 * np.sin(ANGLES)], axis=-1)
    axis, v = np.arange(2), np.arange(8)[:, None]
    individual, side, repeat = np.ogrid[:5, :2, :2]
    i, s, r = (one[..., None, None] for one in (individual, side, repeat))
    own = 5 * np.sin(1.7 * (i + 1) * (v + 2) + 2.3 * axis + i * i) + 2 * np.sin((s + 1) * (v + 1) + axis)
    asymmetry = 1.5 * np.sin(2.9 * (i + 1) * (s + 2) * (v + 3) + axis)
    return base + own + asymmetry + np.sin(4.1 * (i + 2) * (s + 3) * (r + 5) * (v + 1) + 1.3 * axis)


INDIVIDUALS = [f"i{k}" for k in range(5) for _ in range(4)]
SIDES = ["LLRR"[k % 4] for k in range(20)]
REPEATS = [str(k % 2) for k in range(20)]


class TestSuperimposition:
    def test_the_numbers_of_r(self):
        """`procGPA(x, scale = TRUE, tol1 = 1e-14, tol2 = 1e-14)` of the R package shapes 1.2.7: size and rho."""
        done = superimpose(six_shapes(), scaling="full", projection=False)
        sizes = [236.910500756, 262.061177459, 289.954918257, 310.268435103, 331.407985185, 355.210420283]
        rho = [
            0.0596566621101,
            0.0679615172238,
            0.057392999406,
            0.0537496913772,
            0.0581247760028,
            0.0630869980277,
        ]
        assert_allclose(done.centroid_sizes, sizes, rtol=1e-11)
        assert_allclose(done.distances, rho, rtol=1e-9)

    def test_shapes_have_unit_size_and_the_consensus_is_their_mean(self):
        plain = superimpose(six_shapes(), projection=False)
        assert_allclose(centroid_size(plain.coordinates), 1)
        mean = plain.coordinates.mean(axis=0)
        assert_allclose(mean / centroid_size(mean), plain.consensus, atol=1e-11)
        assert_allclose(plain.coordinates.mean(axis=1), 0, atol=1e-15)

    def test_full_shapes_are_nearest_to_the_consensus(self):
        full = superimpose(six_shapes(), scaling="full", projection=False)
        assert_allclose(centroid_size(full.coordinates), np.cos(full.distances))
        distances = np.linalg.norm(full.coordinates - full.consensus, axis=(1, 2))
        assert_allclose(distances, np.sin(full.distances))
        mean = full.coordinates.mean(axis=0)
        assert_allclose(mean / centroid_size(mean), full.consensus, atol=1e-11)

    def test_projected_shapes_lie_in_the_tangent_plane(self):
        done = superimpose(six_shapes())
        off = done.coordinates - done.consensus
        assert_allclose(np.sum(off * done.consensus, axis=(1, 2)), 0, atol=1e-15)

    def test_poses_and_sizes_do_not_count(self):
        shapes = six_shapes()
        turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
        moved = shapes.copy()
        moved[2] = 3 * moved[2] @ turn + (50, -20)
        one, other = superimpose(shapes), superimpose(moved)
        assert_allclose(other.distances, one.distances, atol=1e-12)
        assert_allclose(other.centroid_sizes[2], 3 * one.centroid_sizes[2])

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"shapes": np.ones((4, 8))}, "must be"),
            ({"shapes": np.ones((1, 8, 2))}, "at least two"),
            ({"shapes": np.zeros((2, 8, 2))}, "specimen 0 has all its landmarks in one place"),
            ({"slide": "energy"}, "slide=energy"),
            ({"scaling": "half"}, "scaling=half"),
            ({"rounds": 0}, "rounds=0"),
        ],
    )
    def test_what_cannot_be_superimposed(self, change, sentence):
        with pytest.raises(ValueError, match=sentence):
            superimpose(**{"shapes": six_shapes(), **change})

    def test_a_gap_is_named(self):
        shapes = six_shapes()
        shapes[4, 3] = np.nan
        with pytest.raises(ValueError, match="specimen 4 lacks landmark 3"):
            superimpose(shapes)


class TestSliding:
    def test_the_bending_matrix(self):
        """Affine changes cost nothing, others something."""
        reference = superimpose(six_shapes()).consensus
        matrix = bending_matrix(reference)
        affine = reference @ np.array([[1.2, 0.3], [-0.4, 0.9]]) + (3, 4)
        assert_allclose(matrix @ affine, 0, atol=1e-9)
        values = np.linalg.eigvalsh(matrix)
        assert_allclose(values[:3], 0, atol=1e-9)
        assert values[3] > 0.1

    @pytest.mark.parametrize(
        ("criterion", "steps"),
        [
            ("bending-energy", [0.00595272809443, 0.00233991265601, 0.01746962161803]),
            ("distance", [-0.0155546854469, 0.0126682072773, 0.0265874283124]),
        ],
    )
    def test_the_steps_of_geomorph(self, criterion, steps):
        """What semilandmarks.slide.BE and .ProcD of geomorph 4 do to the first shape, with our consensus."""
        done = superimpose(six_shapes(), projection=False)
        moved = slid(done.coordinates, done.consensus, SLIDERS, criterion)
        off = (moved - done.coordinates)[0, SLIDERS[:, 1]]
        tangents = tangents_of(done.coordinates, SLIDERS)[0]
        assert_allclose(np.sum(off * tangents, axis=1), steps, rtol=1e-9)
        assert_allclose(off[:, 0] * tangents[:, 1], off[:, 1] * tangents[:, 0], atol=1e-15)
        fixed = np.setdiff1d(np.arange(8), SLIDERS[:, 1])
        assert_allclose(moved[:, fixed], done.coordinates[:, fixed])

    @pytest.mark.parametrize("criterion", ["bending-energy", "distance"])
    def test_no_other_step_is_better(self, criterion):
        done = superimpose(six_shapes(), projection=False)
        matrix = bending_matrix(done.consensus)

        def cost(shape):
            if criterion == "distance":
                return np.sum((shape - done.consensus) ** 2)
            return np.sum(shape * (matrix @ shape))

        tangents = tangents_of(done.coordinates, SLIDERS)
        moved = slid(done.coordinates, done.consensus, SLIDERS, criterion)
        for shape, along in zip(moved, tangents, strict=True):
            for number, landmark in enumerate(SLIDERS[:, 1]):
                for step in (-1e-3, 1e-3):
                    other = shape.copy()
                    other[landmark] += step * along[number]
                    assert cost(other) > cost(shape)

    @pytest.mark.parametrize("criterion", ["bending-energy", "distance"])
    def test_one_outline_with_uneven_points_becomes_more_alike(self, criterion):
        """Points that are spread along the same curve differ in nothing but where on it they are."""
        rng = np.random.default_rng(0)
        ends = np.arange(25) % 8 == 0
        along = np.linspace(0, np.pi, 25) + 0.04 * rng.uniform(-1, 1, (20, 25)) * ~ends
        shapes = np.stack([2 * np.cos(along), np.sin(along)], axis=-1)
        sliders = np.array([[k - 1, k, k + 1] for k in range(25) if not ends[k]])
        before, after = superimpose(shapes), superimpose(shapes, sliders, slide=criterion)
        assert after.rounds > 1
        assert np.sum(after.distances**2) < 0.1 * np.sum(before.distances**2)
        assert after.freedom == 2 * 25 - 4 - len(sliders)
        assert_allclose(after.centroid_sizes, before.centroid_sizes)

    def test_a_landmark_without_a_tangent_stays(self):
        shapes = six_shapes()
        shapes[:, 6] = shapes[:, 4]
        moved = slid(shapes, shapes.mean(axis=0), np.array([[0, 1, 2], [4, 5, 6]]), "distance")
        assert_allclose(moved[:, 5], shapes[:, 5])


class TestSliders:
    def test_a_table_as_r_writes_it(self, tmp_path):
        """`write.csv` quotes names and may put row names before them."""
        file = tmp_path / "curveslide.csv"
        file.write_text('"","before","slide","after"\n"1",1,2,3\n"2",2,3,4\n"3",5,6,7\n')
        assert_allclose(read_sliders(file, 8), SLIDERS)
        write_sliders(tmp_path / "b.csv", SLIDERS)
        assert (tmp_path / "b.csv").read_text() == "before,slide,after\n1,2,3\n2,3,4\n5,6,7\n"
        assert_allclose(read_sliders(tmp_path / "b.csv", 8), SLIDERS)

    def test_curves_by_numbers_names_and_ranges(self, tmp_path):
        file = tmp_path / "wing.toml"
        file.write_text(
            '[[curve]]\nname = "edge"\npoints = ["base", "2-4", "tip"]\nfixed = [3]\n'
            "[[curve]]\npoints = [6, 7, 8]\nclosed = true\n"
        )
        names = ["base", "a", "b", "c", "tip", "d", "e", "f"]
        expected = [[0, 1, 2], [2, 3, 4], [7, 5, 6], [5, 6, 7], [6, 7, 5]]
        assert read_sliders(file, 8, names).tolist() == expected

    def test_curves_of_tps(self):
        assert sliders_of_curves(10, [3, 4]).tolist() == [[3, 4, 5], [6, 7, 8], [7, 8, 9]]

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("[[curve]]\npoints = [1, 2, 9]", "no landmark 9: there are 8, counted from 1"),
            ("[[curve]]\npoints = [0, 1, 2]", "no landmark 0"),
            ("[[curve]]\npoints = [1, 'tip', 3]", "no landmark 'tip'. These landmarks have no names"),
            ("[[curve]]\npoints = [1, 2]", "has 2 points"),
            ("[[curve]]\npoints = [1, 2, 3]\nfixed = [4]", "landmark 4 is fixed, but"),
            ("[[curve]]\npoints = [1, 2, 3]\nfixed = [2]", "no landmark slides"),
            ("[[curve]]\npoints = [1, 2, 3]\n[[curve]]\npoints = [4, 2, 5]", "landmark 2 slides twice"),
            ("[[curve]]\npoints = [1, 2, 1]", "slides between 1 and 1"),
            ("[[curve]]\npoint = [1, 2, 3]", "curve 1 has no setting 'point'. Known"),
            ("[[curve]]\npoints = 3", "points must be a list"),
            ("[[curve]]\npoints = [1, 2, 3]\nclosed = 1", "closed must be"),
            ("[[curves]]\npoints = [1, 2, 3]", r"expected tables \[\[curve\]\]"),
            ("[[curve", "not a TOML file"),
        ],
    )
    def test_declarations_that_cannot_be(self, tmp_path, text, sentence):
        (tmp_path / "a.toml").write_text(text)
        with pytest.raises(ValueError, match=sentence):
            read_sliders(tmp_path / "a.toml", 8)

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("1,2,3\n", "first line must have the columns"),
            ("", "first line must have the columns"),
            ("before,slide,after\n1,two,3\n", "row 2: expected three landmark numbers"),
            ("before,slide,after\n1,2\n", "row 2: expected three landmark numbers"),
            ("before,slide,after\n1,2,30\n", "no landmark 30"),
        ],
    )
    def test_tables_that_cannot_be(self, tmp_path, text, sentence):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(ValueError, match=sentence):
            read_sliders(tmp_path / "a.csv", 8)

    def test_something_must_stay(self):
        around = np.array([[(k - 1) % 8, k, (k + 1) % 8] for k in range(8)])
        with pytest.raises(ValueError, match="every landmark slides"):
            checked_sliders(around, 8)

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(ValueError, match="no such sliders file"):
            read_sliders(tmp_path / "none.csv", 8)


class TestAnova:
    """Sums of squares, F and P from R: `anova(lm(c ~ ind * side))` of each coordinate c, summed, and of size.

    The coordinates are ours. Degrees of freedom are those of R, times 2 * 8 - 4.
    """

    def measured(self, keep=slice(None)):
        done = superimpose(repeated_shapes().reshape(-1, 8, 2))
        return done.coordinates[keep], done.centroid_sizes[keep]

    def check(self, table, squares, freedom, ratios, chances):
        assert_allclose([row.squares for row in table.rows], squares, rtol=1e-9)
        assert [row.freedom for row in table.rows] == freedom
        assert_allclose([row.ratio for row in table.rows[:-1]], ratios, rtol=1e-8)
        assert_allclose([row.chance for row in table.rows[:-1]], chances, rtol=1e-7)
        assert sum(row.share for row in table.rows) == pytest.approx(1)
        assert table.rows[-1].ratio is None

    def test_sides(self):
        coordinates, sizes = self.measured()
        shape = procrustes_anova(coordinates, INDIVIDUALS, sides=SIDES)
        self.check(
            shape,
            [0.05103298149103, 0.00618930253783, 0.00315523156742, 0.00119594766580],
            [48, 12, 48, 120],
            [16.17408434231, 7.84640037420, 6.59567232258],
            [9.921341292e-18, 8.108246931e-08, 2.922739545e-17],
        )
        assert [row.source for row in shape.rows] == ["individual", "side", "individual x side", "error"]
        size = procrustes_anova(sizes, INDIVIDUALS, sides=SIDES)
        assert_allclose(
            [row.squares for row in size.rows], [61.30863386, 10.48010906, 10.95275252, 1.78188552], rtol=1e-8
        )
        assert [row.freedom for row in size.rows] == [4, 1, 4, 10]
        assert size.rows[2].ratio == pytest.approx(15.36680, rel=1e-6)

    def test_individuals_alone(self):
        table = procrustes_anova(self.measured()[0], INDIVIDUALS)
        self.check(table, [0.0510329814910, 0.0105404817711], [48, 180], [18.1560657993], [8.391886235e-48])

    def test_observers(self):
        table = procrustes_anova(self.measured()[0], INDIVIDUALS, observers=REPEATS)
        self.check(
            table,
            [5.10329814910e-02, 7.97766132657e-05, 1.04607051578e-02],
            [48, 12, 168],
            [17.07489433307, 0.10676838405],
            [5.004063224e-44, 9.999361597e-01],
        )

    def test_unequal_numbers_of_measurements(self):
        """The eighth is missing; squares are sequential, as those of R."""
        keep = [k for k in range(20) if k != 7]
        coordinates, _ = self.measured(keep)
        individuals, sides, repeats = ([names[k] for k in keep] for names in (INDIVIDUALS, SIDES, REPEATS))
        self.check(
            procrustes_anova(coordinates, individuals, sides=sides),
            [0.04801524415439, 0.00585404988120, 0.00305331076143, 0.00112453644806],
            [48, 12, 48, 108],
            [15.72563289692, 7.66911767404, 6.10913877007],
            [1.805189073e-17, 1.122754475e-07, 3.522531592e-15],
        )
        self.check(
            procrustes_anova(coordinates, individuals, observers=repeats),
            [4.80152441544e-02, 8.32785661287e-05, 9.94861852456e-03],
            [48, 12, 156],
            [15.685549015332, 0.108821275738],
            [8.975752989e-40, 9.999284901e-01],
        )

    def test_two_annotators_as_pliant_check_has_them(self):
        """Another superimposition, so that numbers are alike and not equal."""
        shapes = np.moveaxis(repeated_shapes()[:, 0], 1, 0)
        known = procrustes_variance(shapes)
        done = superimpose(shapes.reshape(-1, 8, 2))
        table = procrustes_anova(done.coordinates, [*range(5), *range(5)], observers=[0] * 5 + [1] * 5)
        assert table.repeatability == pytest.approx(known.repeatability, abs=2e-3)
        assert table.rows[0].ratio == pytest.approx(known.objects.ratio, rel=0.02)
        assert table.rows[0].freedom == known.objects.freedom

    @pytest.mark.parametrize(("own", "error"), [(3.0, 0.5), (2.0, 2.0)])
    def test_variances_that_were_put_in_come_out(self, own, error):
        rng = np.random.default_rng(1)
        base = np.stack([100 * np.cos(ANGLES), 60 * np.sin(ANGLES)], axis=-1)
        truth = base + rng.normal(0, own, (200, 8, 2))
        shapes = np.concatenate([truth + rng.normal(0, error, truth.shape) for _ in range(3)])
        table = procrustes_anova(superimpose(shapes).coordinates, [*range(200)] * 3, permutations=0)
        assert table.repeatability == pytest.approx(own**2 / (own**2 + error**2), abs=0.03)
        assert table.measurement_error == pytest.approx(1 - table.repeatability)
        assert table.rows[0].permuted is None

    def test_chances_by_permutation(self):
        """Nothing but noise is found seldom; the same seed finds the same; what differs is found."""
        rng = np.random.default_rng(2)
        individuals, sides = np.repeat(np.arange(8), 4), np.tile([0, 0, 1, 1], 8)
        found = [
            procrustes_anova(rng.normal(size=(32, 5, 2)), individuals, sides=sides, permutations=99, seed=k)
            for k in range(40)
        ]
        for number in range(3):
            chances = np.array([table.rows[number].permuted for table in found])
            assert np.mean(chances <= 0.05) < 0.2
            assert 0.3 < np.mean(chances) < 0.7
        shifted = rng.normal(size=(32, 5, 2)) + 3 * sides[:, None, None]
        table = procrustes_anova(shifted, individuals, sides=sides, permutations=99)
        assert table.rows[1].permuted <= 0.02
        assert table.rows[0].permuted > 0.05
        again = procrustes_anova(shifted, individuals, sides=sides, permutations=99)
        assert again == table

    def test_copies_do_not_differ(self):
        shapes = np.concatenate([six_shapes(), six_shapes()])
        table = procrustes_anova(
            superimpose(shapes).coordinates, [*range(6)] * 2, observers=[0] * 6 + [1] * 6
        )
        assert table.repeatability == pytest.approx(1)
        assert table.rows[0].ratio == np.inf
        assert (table.rows[1].ratio, table.rows[1].permuted) == (None, None)

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"individuals": ["a"] * 19}, "19 names for 20"),
            ({"individuals": ["a"] * 20}, "at least two individuals"),
            ({"sides": SIDES, "observers": REPEATS}, "give either sides or observers"),
        ],
    )
    def test_what_cannot_be_analysed(self, change, sentence):
        with pytest.raises(ValueError, match=sentence):
            procrustes_anova(**{"coordinates": self.measured()[0], "individuals": INDIVIDUALS, **change})
