"""Every fault done to every command, in real processes: outputs are the old or the new version, and runs go on.

    python benchmarks/chaos.py [--command NAME] [--fault NAME] [--seed 0]

Commands are `train`, `fit`, `fit --cluster local:2`, `track`, `experiment` and `studio`. `cluster_faults.py` does
more to clusters: it kills workers and schedulers.

After each fault every file that a user finds must be the old or the new version, and what pliant said must be a
sentence. Then the command is given again, and what it leaves must be what an undisturbed run leaves, every number
but the seconds to the last bit. A line for each cell says what was done and what pliant said; the exit code is 1 if
anything is wrong. Faults that need root, `setpriv` or libfaketime say so where these are missing.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

from chaos_commands import prepare
from chaos_faults import FAULTS, NotShown
from chaos_studio import STUDIO
from cluster_processes import Stage, kill_group

COMMANDS = ("train", "fit", "cluster", "track", "experiment", "studio")

ELSEWHERE = {("cluster", "fork"), ("cluster", "out of memory")}
"""Workers are no forks, and `cluster_faults.py` takes their memory away."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--command", choices=COMMANDS, action="append", help="this command alone; may be repeated"
    )
    parser.add_argument("--fault", choices=FAULTS, action="append", help="this fault alone; may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    wanted = options.command or COMMANDS
    outcomes: list[str] = []

    def show(command: str, fault: str, done: object) -> None:
        begin = time.monotonic()
        try:
            assert callable(done)
            outcome = f"right: {done()}"
        except NotShown as why:
            outcome = f"not shown: {why}"
        except Exception as error:
            if not isinstance(error, AssertionError):
                traceback.print_exc()
            outcome = f"WRONG: {error}"
        outcomes.append(outcome)
        shorter = stage.shorter(outcome)
        print(f"{command}, {fault}: {shorter} ({time.monotonic() - begin:.0f} s)", flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        stage = Stage(folder, folder / "model.pliant", folder / "images")
        try:
            works = prepare(stage, wanted)
            for fault in options.fault or FAULTS:
                for work in works:
                    if (work.name, fault) not in ELSEWHERE:
                        show(
                            work.name,
                            fault,
                            lambda work=work, fault=fault: FAULTS[fault](stage, work, chance),
                        )
                if "studio" in wanted and fault in STUDIO:
                    show("studio", fault, lambda fault=fault: STUDIO[fault](stage, chance))
        finally:
            for process in stage.started:
                kill_group(process)
    wrong = sum(outcome.startswith("WRONG") for outcome in outcomes)
    left_out = sum(outcome.startswith("not shown") for outcome in outcomes)
    print(f"{len(outcomes)} cells: {wrong} wrong, {left_out} not shown")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
