"""One table of the parts of a run, in the order of the images, each exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pliant.bulk.files import Earlier, differences, files_of_rows
from pliant.bulk.finishing import move_image_files, remove_stale, write_others
from pliant.bulk.parts import (
    FOLDER,
    Marker,
    Plan,
    content_of,
    is_begun,
    markers_in,
    read_plan,
    remove_parts,
    undo,
)
from pliant.bulk.rows import is_head
from pliant.data.addresses import Source, is_address, is_file, join, make_folder, written
from pliant.data.formats import format_for_ending, format_of
from pliant.files import replaced
from pliant.shards import Shard
from pliant.table import TABLE, join_tables, read_head, rows_of

MERGED = "another command has finished the same run: the table is already there"
"""What is said to somebody who has given a command twice."""

_NAMED = 8
"""Parts or shards that a sentence names at the most."""

Found = Mapping[int, tuple[Source, Marker]]
"""The folders of parts, and the markers there, by the numbers of the parts."""


class PartsMissing(ValueError):
    """Raised by `merge_parts` if parts of a run are missing or damaged. The message says which, and what to do.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pliant
    >>> pliant.bulk.fit_images("faces.pliant", "new/", "fits", jobs=1, shard="1/3")
    >>> try:
    ...     pliant.bulk.merge_parts([Path("fits")], Path("fits"))
    ... except pliant.bulk.PartsMissing as error:
    ...     print(str(error)[:11])
    2 of 3 part

    """


def merge_parts(folders: Sequence[Source], output: Source) -> list[str]:
    """Merge the parts of a run into one table, and write the files that are made from the table.

    Parameters
    ----------
    folders : sequence of Path or str
        The folders that shards or a cluster wrote to, in any order: paths, or addresses as strings.
    output : Path or str
        Where the table goes, a path or an address; it may be one of the folders. When the table is complete, the
        parts are removed.

    Returns
    -------
    list of str
        Sentences for the user, for example that a part existed twice.

    Raises
    ------
    PartsMissing
        If parts are missing or damaged. A damaged part no longer counts as done: the next run with `resume` fits
        it again.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pliant
    >>> for shard in ("1/2", "2/2"):
    ...     pliant.bulk.fit_images("faces.pliant", "new/", "fits", jobs=1, shard=shard)
    >>> pliant.bulk.merge_parts([Path("fits")], Path("fits"))
    []
    >>> len(pliant.read_fits("fits")["points"])
    3

    """
    plan, found, said = _gathered(folders)
    _check_annotations(plan)
    missing = [number for number in range(plan.parts) if number not in found]
    try:
        if missing:
            raise PartsMissing(_missing(plan, found, missing, "missing"))
        earlier = _earlier(output, plan, folders)
        with _whole_table(output) as partial:
            join_tables(partial, _contents(plan, found), plan.head)
            # The table of the last run, which says what is to go, stays until nothing of it is left to do.
            remove_stale(partial, output, plan.head, earlier)
            for folder in folders:
                parts = join(folder, FOLDER)
                if isinstance(parts, Path) and isinstance(output, Path):
                    move_image_files(parts, output)
        write_others(output, plan.head, plan.landmarks, plan.names)
    except (OSError, ValueError) as error:
        if not is_merged(folders, output, plan):
            if isinstance(error, ValueError):
                raise
            raise OSError(
                f"{join(output, TABLE)}: this table or the files beside it cannot be written ({error}). All "
                "parts are kept. Fix the problem, then merge again, or run the fit command again with "
                "resume=True."
            ) from error
        said = [MERGED]
    for folder in {*folders, output}:
        remove_parts(join(folder, FOLDER))
    return said


def is_merged(folders: Sequence[Source], output: Source, plan: Plan) -> bool:
    """Whether somebody else has merged these parts by now, and has begun to remove them."""
    table = join(output, TABLE)
    if all(is_begun(folder) for folder in folders) or not is_file(table):
        return False
    head = read_head(table)
    return is_head(head) and head["settings"] == plan.head["settings"]


@contextmanager
def _whole_table(output: Source) -> Iterator[Path]:
    """A path to write the table to, which is the output's when it is whole.

    It is among the parts until then: two may merge at once, and what is left of one that was killed goes with them.
    """
    if not isinstance(output, Path):
        make_folder(output)
        with written(join(output, TABLE)) as partial:
            yield partial
        return
    make_folder(output / FOLDER)
    with replaced(output / TABLE, passing=output / FOLDER) as partial:
        yield partial


def plan_in(folder: Source) -> Plan:
    """The plan of the run whose parts are in a folder that was fitted to."""
    plan = read_plan(join(folder, FOLDER))
    if plan is None:
        there = "its table is already there" if is_file(join(folder, TABLE)) else "nothing was fitted there"
        raise ValueError(f"{folder}: there are no parts to merge: {there}.")
    return plan


def _gathered(folders: Sequence[Source]) -> tuple[Plan, Found, list[str]]:
    """The plan that all folders share, and where each part is; a part that is there twice is taken once."""
    plan: Plan | None = None
    found: dict[int, tuple[Source, Marker]] = {}
    said: list[str] = []
    for folder in folders:
        parts = join(folder, FOLDER)
        own = plan_in(folder)
        plan = own if plan is None else plan
        if own.digest != plan.digest:
            changed = differences(plan.head["settings"], own.head["settings"])
            raise ValueError(
                f"{folder} and {folders[0]} have parts of different runs: {'; '.join(changed)}. Merge the "
                "shards of one run."
            )
        markers = markers_in(parts, own)
        twice = sorted(markers.keys() & found.keys())
        if twice:
            first = found[twice[0]][0]
            said.append(f"{_named('part', twice)} in {parts} and elsewhere: taken from {first}")
        found = {**{number: (parts, marker) for number, marker in markers.items()}, **found}
    if plan is None:
        raise ValueError("give at least one folder to merge.")
    return plan, found, said


def _check_annotations(plan: Plan) -> None:
    """The plan is a file that somebody may have written: what it names is replaced only by its like."""
    target = Path(plan.head["annotations"] or "")
    if is_address(plan.head["annotations"] or "") or not target.is_file():
        return
    wanted = format_for_ending(target)
    try:
        there = format_of(target)[0].NAME
    except ValueError:
        there = "none"
    if there != wanted:
        raise ValueError(f"{target} would be replaced, but it is not a {wanted} file: remove it first.")


def _contents(plan: Plan, found: Found) -> Iterator[bytes]:
    """The files of all parts in order; if some are damaged, all of these are named, and count no longer."""
    damaged = []
    for number in range(plan.parts):
        folder, marker = found[number]
        content = content_of(folder, marker)
        if content is None:
            damaged.append(number)
            undo(folder, [number])
        elif not damaged:
            yield content
    if damaged:
        raise PartsMissing(_missing(plan, found, damaged, "damaged"))


def _missing(plan: Plan, found: Found, missing: Sequence[int], how: str) -> str:
    """Which parts are not there, by the shards that they are of, if shards made the others."""
    shards = {marker.shard for _, marker in found.values()}
    counts = {Shard.parse(text).count for text in shards if text}
    if len(counts) == 1 and "" not in shards:
        count = counts.pop()
        of_shards = sorted({number % count for number in missing})
        which = ", ".join(str(Shard(one + 1, count)) for one in of_shards[:_NAMED])
        more = " and others" if len(of_shards) > _NAMED else ""
        one = len(of_shards) == 1
        verb = "is" if len(missing) == 1 else "are"
        return (
            f"{len(missing)} of {plan.parts} parts {verb} {how}: those of the {'shard' if one else 'shards'} "
            f"{which}{more}. Run {'it' if one else 'them'} again to fit what is missing, then merge."
        )
    return (
        f"{_named('part', missing)} of {plan.parts} {'is' if len(missing) == 1 else 'are'} {how}: run the "
        "fit command again with resume=True to fit what is missing."
    )


def _named(what: str, numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"{what} {numbers[0]}"
    more = " and others" if len(numbers) > _NAMED else ""
    return f"{len(numbers)} {what}s ({', '.join(map(str, numbers[:_NAMED]))}{more})"


def _earlier(output: Source, plan: Plan, folders: Sequence[Source]) -> Earlier:
    """What a run left at the output that has finished. Whether it may be replaced was asked when this one began."""
    table = join(output, TABLE)
    if not is_file(table):
        return Earlier()
    head = read_head(table)
    if not is_head(head):
        raise ValueError(f"{table}: this is not a table of fits that pliant wrote.")
    if output not in folders and head["settings"] != plan.head["settings"]:
        raise ValueError(f"{output} has the fits of another run: merge into another folder.")
    rows = rows_of(table, ["image", "object", "status"])
    return Earlier(finished=head, written=frozenset(files_of_rows(output, head, rows)))
