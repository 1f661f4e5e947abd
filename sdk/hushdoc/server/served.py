"""Served models: loaded from artifacts that their policy accepts, and checked again on a schedule.

Contract: a model that the policy refuses is never loaded; one that it refuses later, since it was
revoked, expired or the policy changed, answers nothing from then on, and neither does any while the
policy can't be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from hushdoc.arguments import short_repr
from hushdoc.artifact import artifact as artifacts
from hushdoc.artifact.artifact import VerificationReport
from hushdoc.errors import ArtifactError, HushdocError, InputError
from hushdoc.explanation.narrative import explain
from hushdoc.policy.policy import Policy
from hushdoc.reports.certificate_page import certificate_page
from hushdoc.runtime.loading import CLASSES, Model
from hushdoc.runtime.model import require_class
from hushdoc.runtime.session import Runtime
from hushdoc.server.problems import RequestRefusedError

CLASSES_OF = {
    "extract": ("KIEModel", "HashedCRFModel"),
    "ask": ("DocVQAModel",),
    "classify": ("ClassificationModel",),
    "embed": ("EmbeddingModel",),
    "redact": ("KIEModel", "HashedCRFModel"),
}
"""The classes of models that answer each request."""


@dataclass(kw_only=True)
class Served:
    """One model; `problem` is why it answers nothing at present, or None."""

    name: str
    model: Model
    report: VerificationReport
    attested: tuple[bytes, ...]
    checked_at: datetime
    problem: HushdocError | None = None

    @classmethod
    def load(cls, name: str | None, path: Path, policy: Policy, runtime: Runtime) -> Served:
        """Returns the model of an artifact that the policy accepts; raises as `hushdoc.load`."""
        now = datetime.now(UTC)
        report = artifacts.verify(path, policy, now=now)
        with artifacts.open_artifact(path, policy, now=now) as artifact:
            if artifact.certificate != report.certificate:
                raise ArtifactError(
                    f"'{path}' was replaced while it was loaded. Start the server again."
                )
            model = CLASSES[require_class(artifact.certificate.model, *CLASSES)]
            return cls(
                name=name or artifact.certificate.model.name,
                model=model.from_artifact(artifact, runtime=runtime),
                report=report,
                attested=artifact.attested,
                checked_at=now,
            )

    @property
    def operations(self) -> tuple[str, ...]:
        """The requests it answers."""
        own = type(self.model).__name__
        return tuple(name for name, classes in CLASSES_OF.items() if own in classes)

    def recheck(self, policy: Policy | HushdocError, now: datetime) -> None:
        """Checks its certificate again; no policy that can be read accepts nothing."""
        try:
            if isinstance(policy, HushdocError):
                raise policy
            found = artifacts.recheck(self.attested, policy, now=now)
            self.report, self.problem = replace(self.report, policy=found), None
        except HushdocError as error:
            self.problem = error
        except Exception as error:
            self.problem = _unchecked(error)
        self.checked_at = now

    def require_accepted(self) -> Served:
        """Returns itself, unless its policy refuses it by now."""
        if self.problem is None:
            return self
        raise RequestRefusedError(
            f"The model {short_repr(self.name)} is refused since its last check: {self.problem}",
            code=self.problem.code,
            status=HTTPStatus.SERVICE_UNAVAILABLE,
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns what it is and what is guaranteed, as plain data for JSON."""
        certificate = self.report.certificate
        return {
            "name": self.name,
            "answers": list(self.operations),
            "accepted": self.problem is None,
            "problem": None if self.problem is None else self.problem.code,
            "checked_at": self.checked_at.isoformat(timespec="seconds"),
            "explanation": explain(certificate),
            "certificate": certificate.to_dict(),
            "verification": self.report.to_dict(),
        }

    def page(self) -> str:
        """Returns the certificate as a page for people; not of a model that is refused."""
        report = self.require_accepted().report
        return certificate_page(
            report.certificate,
            report,
            report.files,
            audits=report.audits,
            recompute=report.recompute,
            payload_sha256=report.payload_sha256,
        )


class ServedModels:
    """All models of a server, by their names."""

    def __init__(self, served: Sequence[Served], policy: Callable[[], Policy]) -> None:
        """Keeps the models, and what reads their policy anew; InputError where names repeat."""
        self.by_name: Mapping[str, Served] = {item.name: item for item in served}
        self._policy = policy
        if len(self.by_name) < len(served):
            names = ", ".join(short_repr(item.name) for item in served)
            raise InputError(
                f"Of the models {names} two have one name. Name them by NAME=ARTIFACT."
            )

    def recheck(self) -> None:
        """Checks every model by the policy as it is now."""
        policy: Policy | HushdocError
        try:
            policy = self._policy()
        except HushdocError as error:
            policy = error
        # Whatever fails, nothing is accepted that was not checked; wrong options end a program.
        except (Exception, SystemExit) as error:
            policy = _unchecked(error)
        now = datetime.now(UTC)
        for item in self.by_name.values():
            item.recheck(policy, now)

    def refuse_unchecked(self, error: Exception) -> None:
        """Refuses every model until a check ends, since the present one does not."""
        for item in self.by_name.values():
            item.problem = _unchecked(error)

    def named(self, name: str | None, operation: str | None = None) -> Served:
        """Returns the model of a name, or the only one that answers such requests."""
        models = self.by_name.values()
        able = [item for item in models if operation in (None, *item.operations)]
        found = [item for item in able if name is None or item.name == name]
        if len(found) == 1:
            return found[0]
        known = ", ".join(short_repr(item.name) for item in able) or "none"
        what = "Several models answer" if found else "No such model answers"
        raise RequestRefusedError(
            f"{what} this request; those that do are: {known}. Name one by ?model=NAME.",
            code="NO_SUCH_MODEL",
            status=HTTPStatus.NOT_FOUND,
        )


def rereading(policy: Policy, read: Callable[[], Policy]) -> Callable[[], Policy]:
    """Returns what reads a policy anew; a store that is as before remembers lists it obeyed."""
    kept = policy.trust

    def read_again() -> Policy:
        nonlocal kept
        found = read()
        if found.trust == kept:
            # Where its file can't be written, only the store that was held knows of them.
            found.trust.obeyed.add(kept.obeyed.sequence, kept.obeyed.revoked_revokers)
        kept = found.trust
        return found

    return read_again


def _unchecked(error: BaseException) -> HushdocError:
    return HushdocError(
        f"The check itself failed with {type(error).__name__}, so nothing is accepted. Look at the "
        "policy and its files, and whether standard error can be written to; it is tried again.",
        code="SERVER_FAILED",
    )
