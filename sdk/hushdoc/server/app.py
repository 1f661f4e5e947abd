"""The application: its routes, who may use them, and what is logged.

Contract: neither logs nor metrics hold any content, question, file name, query or token.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import time
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, TextIO

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hushdoc.errors import HushdocError
from hushdoc.server import openapi
from hushdoc.server.answers import OPERATIONS, ZIP, Options, answered
from hushdoc.server.limits import Limits
from hushdoc.server.metrics import MEDIA_TYPE as METRICS
from hushdoc.server.metrics import Metrics
from hushdoc.server.problems import MEDIA_TYPE, RequestRefusedError, problem_of, status_of
from hushdoc.server.served import Served, ServedModels
from hushdoc.server.tokens import Tokens
from hushdoc.server.uploads import Upload, options, received
from hushdoc.server.work import ClientGoneError, Work
from hushdoc.version import __version__

OPEN_PATHS = ("/healthz", "/readyz")
"""What is answered without a token."""

LEAST_PATIENCE = 30.0
"""Seconds that a check of certificates may take, at least."""

CLIENT_GONE = 499
"""The status that is logged where nobody waited for an answer."""

_SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "X-Content-Type-Options": "nosniff",
}


def build(
    models: ServedModels,
    *,
    limits: Limits,
    tokens: Tokens | None,
    recheck_seconds: float = 60.0,
    ocr: str = "auto",
    log: TextIO | None = None,
) -> FastAPI:
    """Returns the application that answers by these models.

    Args:
        models: What `Served.load` returned.
        limits: What is taken.
        tokens: Who may ask; None for everybody.
        recheck_seconds: How often every certificate is checked again, and tokens are read again.
        ocr: As `hushdoc.open_document` takes it.
        log: Where a line of JSON is written for each request; standard error by default.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.work = work = Work(limits)
        app.state.metrics = Metrics(models, work)
        checks = asyncio.create_task(_checked_again(models, tokens, recheck_seconds))
        yield
        checks.cancel()
        with suppress(asyncio.CancelledError):
            await checks
        work.close()

    app = FastAPI(
        title="hushdoc",
        version=__version__,
        description="Private document models; each checked against a policy before it answers.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )

    async def healthz() -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz() -> Response:
        refused = {n: i.problem.code for n, i in models.by_name.items() if i.problem is not None}
        ready = not refused and (tokens is None or bool(tokens.names))
        body: dict[str, Any] = {"status": "ready" if ready else "not ready"}
        if tokens is None:  # names of models are for those who have one, by /v1/certificate
            body["refused"] = refused
        return JSONResponse(body, 200 if ready else 503)

    async def certificate(request: Request) -> Response:
        named = options(request, {}, {"model": "name of the model (default: all)"})
        chosen = [models.named(name) for name in named.get("model", ())]
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse((chosen[0] if chosen else models.named(None)).page())
        found = chosen or list(models.by_name.values())
        return JSONResponse({"models": [item.to_dict() for item in found]})

    async def metrics(request: Request) -> Response:
        return Response(request.app.state.metrics.text(), media_type=METRICS)

    for path, get in (
        ("/healthz", healthz),
        ("/readyz", readyz),
        ("/v1/certificate", certificate),
        ("/metrics", metrics),
    ):
        app.add_api_route(path, get, methods=["GET"], response_class=Response, response_model=None)
    for name, operation in OPERATIONS.items():
        app.add_api_route(
            f"/v1/{name}",
            _Route(name=name, models=models, limits=limits, ocr=ocr).answer,
            methods=["POST"],
            summary=operation.summary,
            name=name,
            response_class=Response,
            response_model=None,
            openapi_extra=openapi.request_of(operation),
            responses=openapi.responses(name),
        )
    app.add_exception_handler(HTTPException, _not_found)
    paths = frozenset(route.path for route in app.routes if hasattr(route, "path"))
    app.add_middleware(
        Gate, tokens=tokens, log=log or sys.stderr, paths=paths, linger=limits.upload_seconds
    )
    return app


@dataclass(frozen=True, kw_only=True, slots=True)
class _Route:
    """One kind of request, as the application answers it."""

    name: str
    models: ServedModels
    limits: Limits
    ocr: str

    async def answer(self, request: Request) -> Response:
        """Answers one request about one or several documents."""
        work: Work = request.app.state.work
        operation = OPERATIONS[self.name]
        with work.holding() as count:
            if named := request.query_params.getlist("model"):
                self._model(named)  # before a body is taken
            uploads, fields = await received(request, self.limits, count)
            given = options(request, fields, operation.options)
            model = self._model(given.pop("model", []))
            one = partial(self._one, request, model, given)
            if len(uploads) == 1:
                found = await one(uploads[0])
                if isinstance(found, bytes):
                    return Response(found, media_type=ZIP)
                return JSONResponse(found)
            if self.name == "redact":
                raise RequestRefusedError("A request redacts one file. Send one for each.")
            results: list[Any] = []
            for number, upload in enumerate(uploads):
                try:
                    results.append(await one(upload, patient=number > 0))
                except HushdocError as error:
                    if status_of(error) == HTTPStatus.TOO_MANY_REQUESTS:
                        raise
                    results.append({"document_id": upload.name, "error": problem_of(error)})
            return JSONResponse({"results": results})

    def _model(self, named: Sequence[str]) -> Served:
        """Returns the model of a name, or the only one, if the policy still accepts it."""
        return self.models.named(named[-1] if named else None, self.name).require_accepted()

    async def _one(
        self,
        request: Request,
        model: Served,
        given: Options,
        upload: Upload,
        *,
        patient: bool = False,
    ) -> dict[str, Any] | bytes:
        """Returns the answer about one document, once it had its turn."""

        def call() -> dict[str, Any] | bytes:
            accepted = model.require_accepted().model  # it may be refused since this waits
            operation = OPERATIONS[self.name]
            return answered(operation, accepted, upload, given, limits=self.limits, ocr=self.ocr)

        work: Work = request.app.state.work
        return await work.run(call, is_gone=request.is_disconnected, patient=patient)


async def _checked_again(models: ServedModels, tokens: Tokens | None, seconds: float) -> None:
    """Checks the certificates on a schedule; while a check takes too long, nothing is accepted."""

    def checked() -> None:
        if tokens is not None:
            tokens.reread()
        models.recheck()

    while True:
        await asyncio.sleep(seconds)
        check = asyncio.create_task(asyncio.to_thread(checked))
        await asyncio.wait({check}, timeout=max(LEAST_PATIENCE, seconds))
        if not check.done():
            models.refuse_unchecked(TimeoutError())
        try:
            await check  # once it ends, what it found counts
        except Exception as error:  # it never began: no thread could be started
            models.refuse_unchecked(error)


async def _not_found(request: Request, error: Exception) -> Response:
    """Says as a problem what the router refuses."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    code = "NOT_FOUND" if status == HTTPStatus.NOT_FOUND else "BAD_REQUEST"
    raise RequestRefusedError(
        f"{status.phrase}. GET /openapi.json lists what is answered here.",
        code=code,
        status=status,
        headers=dict(error.headers or {}),
    )


class Gate:
    """Stands before all routes: tokens, problems, metrics, and one line of log for each request."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: Tokens | None,
        log: TextIO,
        paths: frozenset[str],
        linger: float,
    ) -> None:
        """Keeps what it needs; `paths` are those that metrics and logs may name.

        What is sent after a refusal is taken for `linger` seconds.
        """
        self._app, self._linger = app, linger
        self._tokens = tokens
        self._log = log
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, whatever happens on the way."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        request = Request(scope, receive)
        line: dict[str, Any] = {"id": secrets.token_hex(8), "code": "ok"}
        status = CLIENT_GONE
        arrived = refused = False

        async def taken() -> Message:
            nonlocal arrived
            message = await receive()
            arrived = not message.get("more_body", False)
            return message

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {**_SECURITY_HEADERS, "X-Request-Id": line["id"]}
                message["headers"] = [
                    *message.get("headers", ()),
                    *((key.lower().encode(), value.encode()) for key, value in own.items()),
                ]
            if refused and message["type"] == "http.response.body":
                message["more_body"] = True  # though all of it is there
            await send(message)

        try:
            try:
                line["client"] = self._client(request)
                await self._app(scope, taken, sent)
            except HushdocError as error:
                refused = True
                line["code"] = error.code
                await _problem(error)(scope, taken, sent)
            except ClientGoneError:
                line["code"] = "CLIENT_GONE"
            except Exception as error:
                refused = True
                line |= {"code": "SERVER_FAILED", "error": _where(error)}
                await _problem(_internal(line["id"]))(scope, taken, sent)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            seconds = time.monotonic() - began
            scope["app"].state.metrics.count(path, status, line["code"], seconds)
            line |= {"path": path, "status": status, "seconds": round(seconds, 4)}
            line["time"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            print(json.dumps(line, ensure_ascii=True), file=self._log, flush=True)
        if refused:
            # A connection that is closed while its client sends is reset, which the answer may
            # not survive.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._linger):
                    while not arrived:
                        await taken()
            await send({"type": "http.response.body"})

    def _client(self, request: Request) -> str | None:
        """Returns the name of who asks, where names are demanded."""
        if self._tokens is None:
            return None
        if any(self._tokens.name_of(value) for value in request.query_params.values()):
            raise RequestRefusedError(
                "A token stands in the query, which logs and histories keep. Withdraw that token, "
                "and send another one as 'Authorization: Bearer TOKEN'.",
                code="TOKEN_IN_QUERY",
            )
        if request.url.path in OPEN_PATHS:
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        name = self._tokens.name_of(token.strip()) if scheme.lower() == "bearer" else None
        if name is None:
            raise RequestRefusedError(
                "No token that is known here came with the request. Send one as 'Authorization: "
                "Bearer TOKEN'.",
                code="UNAUTHORIZED",
                status=HTTPStatus.UNAUTHORIZED,
                headers={"WWW-Authenticate": 'Bearer realm="hushdoc"'},
            )
        return name


def _problem(error: HushdocError) -> Response:
    """Returns a problem, after which the connection ends: its body may be without an end."""
    headers = error.headers if isinstance(error, RequestRefusedError) else {}
    headers = {**headers, "Connection": "close"}
    return JSONResponse(problem_of(error), status_of(error), headers, media_type=MEDIA_TYPE)


def _internal(number: str) -> HushdocError:
    return HushdocError(
        f"Answering failed in an unforeseen way. Report this with the request's id {number}.",
        code="SERVER_FAILED",
    )


def _where(error: Exception) -> str:
    """Returns the kind and place of a failure; its message may quote a document."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames[-3:]]
    return f"{type(error).__name__} at {' < '.join(reversed(places))}"
