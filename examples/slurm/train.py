"""Train a model on a SLURM cluster, with workers that Dask starts as jobs of the queue.

    pip install '../..[cluster]' dask-jobqueue
    python train.py photographs faces.pliant --workers 8 --partition short

This program waits while the workers work: start it where it may run that long, which can be a small job of its own.
Workers that the queue takes away are replaced, and what they were doing is done again.
"""

import argparse

from dask_jobqueue import SLURMCluster

import pliant


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a model on a SLURM cluster.")
    parser.add_argument("images", help="annotated images: a folder or manifest that all nodes can read")
    parser.add_argument("model", help="the file to write")
    parser.add_argument("--workers", type=int, default=8, help="jobs in the queue")
    parser.add_argument("--cores", type=int, default=4, help="cores of each job")
    parser.add_argument("--memory", default="16GB", help="memory of each job")
    parser.add_argument("--walltime", default="04:00:00", help="time of each job")
    parser.add_argument("--partition", help="where to submit them")
    parser.add_argument("--account", help="who pays for them")
    options = parser.parse_args()

    # A process for each core: parts of the work are done side by side, each by one thread.
    with SLURMCluster(
        cores=options.cores,
        processes=options.cores,
        memory=options.memory,
        walltime=options.walltime,
        queue=options.partition,
        account=options.account,
    ) as queue:
        queue.scale(jobs=options.workers)
        # Jobs may wait in the queue for a while.
        with pliant.connect(queue, patience=3600) as cluster:
            model = pliant.train(options.images, jobs=cluster)
    model.save(options.model)
    print(f"wrote {options.model}")


if __name__ == "__main__":
    main()
