"""The server's courier: Flower's Fleet API over TLS for registered nodes, and nothing else of it.

A whole SuperLink would also take, from whoever reaches its port, programs to run here and on every
client. This serves the routes that nodes call, and holds one open message for each node, which is
asked again for news when it has been idle.

Run by Flower's Python; imports Flower and the standard library.
"""

from __future__ import annotations

import json
import math
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.constant import NOOP_FLWR_AID, SUPERLINK_NODE_ID
from flwr.supercore.constant import (
    FLWR_IN_MEMORY_DB_NAME,
    NOOP_ACCOUNT_NAME,
    NOOP_FEDERATION_ID,
    TaskType,
)
from flwr.supercore.error import http_error_translator
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_store import NoObjectInStoreError
from flwr.supercore.protobuf.translation import ProtobufTranslationMiddleware
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.config_loader import (
    get_federation_manager,
    get_objectstore_linkstate_factories,
)
from flwr.superlink.routers.fleet.node_auth import NodeAuthMiddleware
from flwr.superlink.routers.fleet.router import router
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware

from hushdoc_training.federated.flower import wire

_BEAT = 10.0
"""Seconds between the signs of life that keep Flower's run open; it closes it after 30."""


@dataclass(kw_only=True)
class _Node:
    """What is known of one client: its number in Flower, what it is to get and was asked."""

    number: int
    waiting: list[tuple[list[bytes], float]] = field(default_factory=list)
    asked: str | None = None
    heard: float = 0.0


class _Run:
    """One Flower run that carries messages, with the state that the Fleet API serves."""

    def __init__(self, keys: dict[str, bytes]) -> None:
        self.states = get_objectstore_linkstate_factories(
            FLWR_IN_MEMORY_DB_NAME, get_federation_manager()
        )[1]
        self.state = self.states.state()
        self.nodes = {
            name: _Node(
                number=self.state.create_node(
                    NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, key, heartbeat_interval=0, name=name
                )
            )
            for name, key in keys.items()
        }
        self.names = {node.number: name for name, node in self.nodes.items()}
        self.number = self.state.create_run(
            "hushdoc/frames",
            "1",
            None,
            {},
            NOOP_FEDERATION_ID,
            None,
            NOOP_FLWR_AID,
            TaskType.SERVER_APP,
        )
        self.task = self.state.get_tasks(run_ids=[self.number])[0].task_id
        if not (self.state.claim_task(self.task) and self.state.activate_task(self.task)):
            raise RuntimeError("Flower did not open the run.")
        TaskIdentity.task_id, TaskIdentity.run_id = self.task, self.number
        TaskIdentity.node_id = SUPERLINK_NODE_ID
        self.beaten = time.monotonic()
        self.arriving: list[Message] = []

    def beat(self) -> None:
        """Keeps the run open."""
        if time.monotonic() - self.beaten > _BEAT:
            self.beaten = time.monotonic()
            if not self.state.acknowledge_task_heartbeat(self.task):
                raise RuntimeError("Flower closed the run.")

    def there(self) -> set[int]:
        """Returns the numbers of the nodes that are connected."""
        return set(self.state.get_nodes(self.number))

    def hand_out(self, pause: float) -> None:
        """Sends what waits to nodes that are there and were not asked, else a question for news."""
        now, there = time.monotonic(), self.there()
        for node in self.nodes.values():
            node.waiting = [(frames, until) for frames, until in node.waiting if until > now]
            if node.asked is not None or node.number not in there:
                continue
            if node.waiting:
                frames, until = node.waiting.pop(0)
                self._ask(node, frames, until - now)
            elif now - node.heard > pause:
                self._ask(node, [], 60.0)

    def _ask(self, node: _Node, frames: list[bytes], seconds: float) -> None:
        message = Message(
            RecordDict({wire.RECORD: ConfigRecord({wire.RECORD: frames})}),
            dst_node_id=node.number,
            message_type="query",
            ttl=seconds,
        )
        with no_object_id_recompute():
            message.metadata.__dict__["_message_id"] = message.object_id
            objects = get_all_nested_objects(message)
            session = self.state.start_session(self.number)
            stored, wanted = self.state.store_message_and_object_tree(
                message, get_object_tree(message), session
            )
            if not stored:
                raise RuntimeError("Flower did not take a message.")
            for name in wanted:
                self.state.store_object(self.number, session, name, objects[name].deflate())
        node.asked = message.metadata.message_id

    def collect(self) -> list[tuple[str, list[bytes]]]:
        """Returns the frames that nodes have answered with and that are wholly here, by name."""
        asked = {node.asked for node in self.nodes.values() if node.asked is not None}
        for reply in self.state.get_message_res(message_ids=asked, run_id=self.number):
            node = next(n for n in self.nodes.values() if n.asked in _questions(reply))
            node.asked = None  # answered, too late, or asked of a node that is gone
            self.state.delete_messages(message_ins_ids=_questions(reply))
            if not reply.has_error():
                node.heard = time.monotonic()
                self.arriving.append(reply)
        came, still = [], []
        for reply in self.arriving:
            frames = self._frames(reply)
            if frames is None:
                still.append(reply)
            elif frames:
                came.append((self.names[reply.metadata.src_node_id], frames))
        self.arriving = still
        return came

    def is_quiet(self) -> bool:
        """Whether all that was to be said has been said and answered."""
        return not self.arriving and all(
            node.asked is None and not node.waiting for node in self.nodes.values()
        )

    def _frames(self, reply: Message) -> list[bytes] | None:
        """Returns the frames of a reply, none where its sender broke off; None: not all is here."""
        store, name = self.state.object_store, reply.metadata.message_id
        try:
            parts = [tree.object_id for tree in iterate_object_tree(store.get_object_tree(name))]
        except NoObjectInStoreError:
            return []
        found = {part: self.state.get_object(self.number, part) for part in parts}
        if any(content is None for content in found.values()):
            return []
        if not all(found.values()):
            return None
        content = inflate_object_from_contents(name, found).content
        store.delete(name)
        return list(content[wire.RECORD][wire.RECORD])


def _questions(reply: Message) -> set[str]:
    return {reply.metadata.reply_to_message_id}


def main(descriptor: int) -> None:
    """Serves nodes and carries frames until the resident process is gone."""
    line = wire.Line(socket.socket(fileno=descriptor))
    opening = line.receive(seconds=wire.PATIENCE)
    if opening is None:
        raise wire.WireError("The resident process sent no settings.")
    settings = json.loads(opening[0])
    run = _Run(dict(zip(settings["clients"], opening[1:], strict=True)))
    server = _serve(run, settings)
    line.send([b"listening"])
    finish, quiet = math.inf, math.inf
    while not server.should_exit:
        try:
            parts = line.receive(seconds=settings["pause"])
        except wire.WireError:  # the resident has gone, and its courier goes too
            break
        if parts is not None and (header := json.loads(parts[0])):
            until = time.monotonic() + header["seconds"]
            run.nodes[header["to"]].waiting.append((parts[1:], until))
        elif parts is not None:
            finish = time.monotonic() + settings["linger"]
        run.beat()
        run.hand_out(settings["idle"] if finish == math.inf else math.inf)
        for name, frames in run.collect():
            line.send([json.dumps({"from": name}).encode(), *frames])
        if finish < math.inf and run.is_quiet():
            # Those who are finished too leave now; a moment later they would find nobody.
            quiet = min(quiet, time.monotonic() + settings["idle"])
            finish = min(finish, quiet if run.there() else 0.0)
        if time.monotonic() > finish:
            line.send([b"finished"])
            break
    server.should_exit = True


def _serve(run: _Run, settings: dict[str, Any]) -> uvicorn.Server:
    """Starts the Fleet API, which asks every node for its key, in a thread."""
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        middleware=[
            Middleware(_Guard),
            Middleware(BaseHTTPMiddleware, dispatch=http_error_translator),
            Middleware(ProtobufTranslationMiddleware),
            Middleware(NodeAuthMiddleware),
        ],
    )
    app.state.linkstate_factory = run.states
    app.state.enable_supernode_auth = True
    app.include_router(router)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=settings["host"],
            port=settings["port"],
            ssl_certfile=settings["certificate"],
            ssl_keyfile=settings["key"],
            log_level="warning",
            access_log=False,
        )
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + wire.PATIENCE
    while not server.started:
        if not thread.is_alive() or time.monotonic() > until:
            raise RuntimeError(f"Nothing listens on {settings['host']}:{settings['port']}.")
        time.sleep(0.05)
    return server


class _Guard:
    """Answers nothing but what nodes ask for, in requests no larger than any of ours."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            length = dict(scope["headers"]).get(b"content-length", b"")
            status = None
            if not scope["path"].startswith("/v1/fleet/"):
                status = 404
            elif not length.isdigit() or int(length) > wire.MAX_BYTES:
                status = 413
            if status is not None:
                await send({"type": "http.response.start", "status": status, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)


if __name__ == "__main__":
    main(int(sys.argv[1]))
