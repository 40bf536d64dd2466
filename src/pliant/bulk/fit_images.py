"""Any number of images to a table on disk: what `pliant fit` does, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pliant.bulk.parts import is_begun
from pliant.bulk.prepare import prepare
from pliant.bulk.run import run
from pliant.bulk.run_in_parts import run_in_parts
from pliant.crew import Jobs, crew_of, in_this_process
from pliant.data.addresses import Source, as_source
from pliant.data.sources import find_images
from pliant.settings import Fitting
from pliant.shards import Shard


def fit_images(
    model: Source,
    images: Source | Sequence[Source],
    output: Source,
    settings: Fitting | None = None,
    *,
    jobs: Jobs = None,
    shard: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    **rest: Any,
) -> None:
    """Fit a model to any number of images, and write a table that `pliant.read_fits` reads.

    If anything stops it, the finished fits are kept: call it again with `resume`.

    Parameters
    ----------
    model : Path or str
        A model file, or its address.
    images : Path, str or sequence of them
        Images, patterns, folders, manifests, or addresses of these.
    output : Path or str
        The folder or address to write to.
    settings : Fitting or None
        How to fit; `Fitting()` by default.
    jobs : int, Crew or None
        Threads, all cores by default; or a cluster from `pliant.connect`.
    shard : str or None
        `"3/16"` fits the third of sixteen shares. `merge_parts` makes the table when all are done.
    resume : bool
        Continue a run that did not finish, with the same settings.
    overwrite : bool
        Replace what an earlier run wrote to `output`, once all the new results are there.
    **rest
        `boxes`, a table that says where the objects are, and what else to write: `landmarks` (a format; one file
        for each image), `annotations` (one file for all images), `csv` (True or False), `draw` (a `Drawing`),
        `bound` (the error that confidence refers to) and `flag_below` (list fits with less confidence in a table
        of their own).

    Raises
    ------
    ValueError
        If the settings do not suit the model, or results would be replaced without `overwrite`.

    Examples
    --------
    >>> import pliant
    >>> pliant.bulk.fit_images("faces.pliant", "new/", "fits", jobs=1)
    >>> len(pliant.read_fits("fits")["points"])
    3

    """
    target, crew = as_source(output), crew_of(jobs)
    several = [images] if isinstance(images, (str, Path)) else images
    found = find_images([str(one) for one in several])
    here = in_this_process(crew)
    threads = crew.threads if here else None
    prepared = prepare(as_source(model), found, target, settings or Fitting(), jobs=threads, **rest)
    if here and shard is None and isinstance(target, Path) and not is_begun(target):
        run(prepared.task, prepared.fitter, prepared.where, resume, overwrite=overwrite)
        return
    share = None if shard is None else Shard.parse(shard)
    run_in_parts(prepared, crew, shard=share, resume=resume, overwrite=overwrite)
