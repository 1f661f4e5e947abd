"""Metrics for Prometheus: counts, times, queue and memory, and nothing of any document."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from hushdoc.server.served import Served, ServedModels
from hushdoc.server.work import Work

MEDIA_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """The numbers of one server; labels are paths of ours, names of models, statuses and codes."""

    def __init__(self, models: ServedModels, work: Work) -> None:
        """Registers them apart from those of the process that the server may run in."""
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "hushdoc_requests",
            "Requests that were answered, by their outcome",
            ("path", "status", "code"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "hushdoc_request_seconds",
            "Time from the head of a request to the end of its answer",
            ("path",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        accepted = Gauge(
            "hushdoc_model_accepted",
            "Whether the policy accepts a model at present",
            ("model",),
            registry=self._registry,
        )
        for item in models.by_name.values():
            accepted.labels(item.name).set_function(partial(_is_accepted, item))
        for name, words in (
            ("running", "Documents that are being read and answered"),
            ("waiting", "Documents that wait for their turn"),
            ("held_bytes", "Bytes of requests in memory"),
        ):
            gauge = Gauge(f"hushdoc_{name}", words, registry=self._registry)
            gauge.set_function(partial(getattr, work, name))

    def count(self, path: str, status: int, code: str, seconds: float) -> None:
        """Counts one request; `code` is "ok" or that of its problem."""
        self._requests.labels(path, status, code).inc()
        self._seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """Returns all numbers as Prometheus reads them."""
        return generate_latest(self._registry)


def _is_accepted(item: Served) -> float:
    return float(item.problem is None)
