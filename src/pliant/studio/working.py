"""Endpoints for background work: what is under way, and stopping it."""

from __future__ import annotations

from pliant.studio.desk import Studio
from pliant.studio.web.endpoints import Endpoints
from pliant.studio.web.jobs import JobState

endpoints = Endpoints("work")


@endpoints.get("/api/jobs")
def jobs(studio: Studio) -> list[JobState]:
    """Background work, newest first."""
    return studio.jobs.states()


@endpoints.delete("/api/jobs/{number}")
def stop_job(studio: Studio, number: int) -> JobState:
    """Stop background work; finished results are kept."""
    job = studio.jobs.find(number)
    job.stop()
    return job.state
