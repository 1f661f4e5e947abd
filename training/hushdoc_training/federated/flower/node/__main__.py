"""A client's courier: takes messages from the server's Flower, and asks its resident for answers.

Flower's own SuperNode would fetch whatever program the server names and run it beside the data, so
this uses Flower's node connection alone: bytes come, bytes go, and nothing that came is run.

Run by Flower's Python; imports Flower and the standard library, and knows no key but the node's.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import sys
import time
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    pull_and_inflate_object_from_tree,
)
from flwr.supernode.fleet_http_connection import http_request_response

from hushdoc_training.federated.flower import wire


def main(descriptor: int) -> None:
    """Carries messages until the resident or the server is gone."""
    line = wire.Line(socket.socket(fileno=descriptor))
    opening = line.receive(seconds=wire.PATIENCE)
    if opening is None:
        raise wire.WireError("The resident process sent no settings.")
    settings, authority, pem = json.loads(opening[0]), opening[1], opening[2]
    key = load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("A node's key must be of an elliptic curve.")
    _meet(settings, authority)
    with http_request_response(
        settings["server"],
        insecure=False,
        root_certificates=authority,
        authentication_keys=(key, key.public_key()),
        max_wait_time=settings["seconds"],
    ) as (_, receive, send, _, _, pull, push, confirm):
        line.send([b"connected"])
        said: tuple[int, str] | None = None
        while True:
            found = receive()
            if found is None:
                if select.select([line], [], [], settings["pause"])[0]:
                    # The resident has nothing to say unasked, so it is gone. Answers of a node that
                    # leaves are dropped, so this one leaves when its last answer has been taken.
                    until = time.monotonic() + settings["linger"]
                    while said is not None and _is_there(pull, *said) and time.monotonic() < until:
                        time.sleep(settings["pause"])
                    return
                continue
            begun = time.monotonic()
            run = found[0].metadata.run_id
            asked = pull_and_inflate_object_from_tree(
                found[1],
                lambda name, run=run: pull(run, name),
                lambda name, run=run: confirm(run, name),
                return_type=Message,
                max_time=settings["seconds"],
            )
            asked.metadata.__dict__["_message_id"] = found[1].object_id
            line.send(asked.content[wire.RECORD][wire.RECORD])
            frames = line.receive(seconds=asked.metadata.ttl)
            if frames is None:
                raise wire.WireError("The resident process did not answer in time.")
            content = RecordDict({wire.RECORD: ConfigRecord({wire.RECORD: frames})})
            answer = Message(content, reply_to=asked)
            with no_object_id_recompute():
                answer.metadata.__dict__["_message_id"] = answer.object_id
                objects = get_all_nested_objects(answer)
                wanted, session = send(answer, get_object_tree(answer), time.monotonic() - begun)
                for name in wanted:
                    push(run, session, name, objects[name].deflate())
            said = run, answer.metadata.message_id


def _is_there(pull: Callable[[int, str], bytes], run: int, name: str) -> bool:
    """Whether the server still holds an object."""
    try:
        pull(run, name)
    except ObjectPullError:
        return False
    return True


def _meet(settings: dict[str, Any], authority: bytes) -> None:
    """Waits until the server answers; leaves at once where its certificate is another's."""
    host, port = settings["server"].rsplit(":", 1)
    trusted = ssl.create_default_context(cadata=authority.decode("ascii"))
    until = time.monotonic() + settings["seconds"]
    while True:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=5) as plain:
                trusted.wrap_socket(plain, server_hostname=host.strip("[]")).close()
            return
        except ssl.SSLCertVerificationError as problem:
            print(f"The server's certificate is not to be trusted: {problem.verify_message}.")
            sys.exit(wire.WRONG_CERTIFICATE)
        except OSError as problem:
            if time.monotonic() > until:
                sys.exit(f"No server at {settings['server']}: {problem}.")
            time.sleep(settings["pause"])


if __name__ == "__main__":
    main(int(sys.argv[1]))
