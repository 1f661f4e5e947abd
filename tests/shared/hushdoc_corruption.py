"""Hostile hands: a sealed toy artifact, what is done to it, and the code with which it is refused.

A case is refused in four ways of opening, each on a fresh artifact: verifying, opening, opening in
low memory, and loading a model. None may reach the one door to ONNX Runtime.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hushdoc.accounting.mechanism import Mechanism
from hushdoc.artifact import artifact
from hushdoc.errors import HushdocError, PolicyViolationError
from hushdoc.policy.policy import Policy
from hushdoc.runtime import loading, session
from hushdoc.signing import dsse, trust_store

NOW = datetime(2026, 11, 22, tzinfo=UTC)
ENVELOPE = "privacy.intoto.jsonl"
MODEL = "onnx/model.onnx"

# The toy's tokenizer and settings are real ones, so that nothing but the checks stands between
# the toy and the door.
TOKENIZER = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": None,
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
}
PREPROCESSING = {
    "max_tokens": 64,
    "overlap": 8,
    "box_level": "word",
    "cls_id": 0,
    "sep_id": 0,
    "pad_id": 0,
}


Act = Callable[["Scene"], object]
Refused = dict[str, dict[str, Act]]
"""By code of refusal, what is done by its name."""


class DoorReachedError(Exception):
    """A session was about to be made: every check had passed."""


@dataclass(kw_only=True)
class Scene:
    """One artifact with everything that hostile hands can reach, and what the application says.

    Attributes:
        build: The builders of toy certificates and files.
        folder: The sealed artifact.
        outside: A folder beside it, of the same user.
        key: Who signed; the policy trusts it.
        other_key: Somebody whom the policy does not know.
        policy: What the application demands.
        now: The application's clock.
        patch: For races: what else happens while the artifact is read.
    """

    build: ModuleType
    folder: Path
    outside: Path
    key: Any
    other_key: Any
    policy: Policy
    patch: pytest.MonkeyPatch
    now: datetime = NOW

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def files(self, **change: bytes | None) -> dict[str, bytes]:
        """Returns the toy's files; `change` uses __ for a slash and _DOT_ for a dot."""
        manifest = {**self.build.MANIFEST, "preprocessing": PREPROCESSING}
        sound = {
            "hushdoc_DOT_json": json.dumps(manifest).encode(),
            "tokenizer_DOT_json": json.dumps(TOKENIZER).encode(),
        }
        return self.build.files(**{**sound, **change})  # type: ignore[no-any-return]

    def demand(self, **change: Any) -> None:
        """Lets the application demand something else."""
        self.policy = dataclasses.replace(self.policy, **change)

    def trust(self, *keys: trust_store.TrustedKey, **change: Any) -> None:
        """Lets the application trust these keys and no others."""
        self.demand(trust=trust_store.TrustStore(keys=keys), **change)

    def seal(self, certified: Any = None, contents: dict[str, bytes] | None = None) -> None:
        """Seals the folder anew as an honest signer would."""
        self._clear()
        self.build.seal(self.folder, self.key, certified, contents or self.files())

    def forge(
        self,
        edit: Callable[[dict[str, Any]], object] = lambda _: None,
        certified: Any = None,
        contents: dict[str, bytes] | None = None,
    ) -> None:
        """Seals the folder anew as a trusted but dishonest signer would: nothing is checked."""
        self._clear()
        self.build.seal_anything(self.folder, self.key, edit, certified, contents or self.files())

    def sign(self, payload: bytes, *keys: Any) -> None:
        """Writes an envelope around any payload, signed by these keys, or by the trusted one."""
        first, *more = keys or (self.key,)
        line = dsse.sign(payload, first)
        for key in more:
            line = dsse.add_signature(line.encode(), key)
        (self / ENVELOPE).write_text(line + "\n")

    def move_into_cache(self) -> Path:
        """Lays the files out as the Hugging Face cache does, and returns the folder of blobs."""
        cache = self.outside / "models--org--invoice-kie"
        snapshot, blobs = cache / "snapshots" / "revision", cache / "blobs"
        blobs.mkdir(parents=True)
        snapshot.parent.mkdir()
        self.folder.rename(snapshot)
        self.folder = snapshot
        for path in [item for item in snapshot.rglob("*") if item.is_file()]:
            path.rename(blobs / path.name)
            up = "../" * (len(path.relative_to(snapshot).parts) + 1)
            path.symlink_to(f"{up}blobs/{path.name}")
        return blobs

    def payload(self) -> bytes:
        """Returns the signed bytes as they stand there."""
        return base64.b64decode(self.envelope()["payload"])

    def resign(self, change: Callable[[bytes], bytes]) -> None:
        """Changes the signed bytes and signs them again with the trusted key."""
        changed = change(self.payload())
        assert changed != self.payload()
        self.sign(changed)

    def envelope(self) -> dict[str, Any]:
        """Returns the first line as plain data."""
        return json.loads((self / ENVELOPE).read_bytes().split(b"\n")[0])  # type: ignore[no-any-return]

    def write_envelope(self, data: Any) -> None:
        """Writes the first line from plain data."""
        (self / ENVELOPE).write_text(json.dumps(data) + "\n")

    def _clear(self) -> None:
        for path in sorted(self.folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()


@dataclass(frozen=True, kw_only=True)
class Case:
    """One attack.

    Attributes:
        name: "group/what-is-done".
        act: What is done to a sound artifact.
        code: The code with which it is refused.
        failed: The codes of all rules that fail, where a policy refuses; `code` alone by default.
        ways: Which ways of opening meet it; all four by default.
        pending: What happens instead for now; the test fails as soon as that is mended.
    """

    name: str
    act: Callable[[Scene], object]
    code: str
    failed: frozenset[str] = frozenset()
    ways: tuple[str, ...] = ()
    pending: str = ""

    def __str__(self) -> str:
        return self.name


def case(name: str, act: Callable[[Scene], object], code: str, *failed: str, **more: Any) -> Case:
    """Returns a case; `failed` names the other rules that fail with it."""
    return Case(name=name, act=act, code=code, failed=frozenset({code, *failed}), **more)


def cases(prefix: str, refused: Refused, **more: Any) -> list[Case]:
    """Returns the cases of a table; `prefix` begins their names, with their group."""
    return [
        case(f"{prefix}{name}", act, code, **more)
        for code, acts in refused.items()
        for name, act in acts.items()
    ]


def _attacks(cases: Iterable[Case]) -> list[Any]:
    """Returns the cases as parameters of a test, named and with what is pending marked."""
    return [
        pytest.param(
            found,
            id=found.name,
            marks=[pytest.mark.xfail(reason=found.pending, strict=True)] if found.pending else [],
        )
        for found in cases
    ]


def _verify(scene: Scene) -> object:
    return artifact.verify(scene.folder, scene.policy, now=scene.now)


def _open(scene: Scene) -> object:
    return artifact.open_artifact(scene.folder, scene.policy, now=scene.now)


def _open_low_memory(scene: Scene) -> object:
    # What runtimes do: each file is handed out only as the file that was checked.
    with artifact.open_artifact(
        scene.folder, scene.policy, now=scene.now, low_memory=True
    ) as opened:
        for subject in opened.subjects:
            with opened.source(subject.name) as path:
                Path(path).read_bytes()  # type: ignore[arg-type]
    return opened


def _load(scene: Scene) -> object:
    at = partial(artifact.open_artifact, now=scene.now)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifact, "open_artifact", at)
        return loading.load(scene.folder, policy=scene.policy)


def _store(scene: Scene) -> object:
    """Opens with the trust store that stands in a file beside the artifact."""
    store = trust_store.TrustStore.from_file(scene.outside / "trust.json")
    scene.demand(trust=store)
    return _open(scene)


def _policy(scene: Scene) -> object:
    """Opens with the policy that stands in a file beside the artifact."""
    scene.policy = Policy.from_toml(scene.outside / "policy.toml")
    return _open(scene)


WAYS = {
    "verify": _verify,
    "open": _open,
    "open-low-memory": _open_low_memory,
    "load": _load,
    "store": _store,
    "policy": _policy,
}
EVERY_WAY = ("verify", "open", "open-low-memory", "load")


def watch_the_door(patch: pytest.MonkeyPatch) -> list[str]:
    """Returns the list in which every attempt to make a model, or a session, is noted."""
    reached: list[str] = []

    def door() -> Any:
        reached.append("door")
        raise DoorReachedError

    patch.setattr(session, "import_onnxruntime", door)
    for model in loading.CLASSES.values():
        honest: Callable[..., object] = model.from_artifact

        def made(*given: Any, _honest: Callable[..., object] = honest, **options: Any) -> object:
            reached.append("model")
            return _honest(*given, **options)

        patch.setattr(model, "from_artifact", staticmethod(made))
    return reached


def require_refused(case: Case, make: Callable[[], Scene]) -> None:
    """Raises unless every way of opening refuses with the very code, before any weight."""
    for way in case.ways or EVERY_WAY:
        scene = make()
        case.act(scene)
        reached = watch_the_door(scene.patch)
        before = open_files()
        with pytest.raises(HushdocError) as caught:
            WAYS[way](scene)
        error = caught.value
        assert error.code == case.code, f"{way}: {error.code}: {error}"
        assert not reached, f"{way} made a model"
        assert str(error).isprintable(), f"{way}: the message could steer a terminal"
        assert len(str(error)) < 6000, f"{way}: the message floods a log"
        if isinstance(error, PolicyViolationError):
            failed = {rule.code for rule in error.report.failed}
            assert failed == case.failed, f"{way}: {error}"
        del error, caught
        assert open_files() == before, f"{way} left a file open"
        scene.patch.undo()


def require_accepted(
    act: Callable[[Scene], object],
    make: Callable[[], Scene],
    *,
    ways: tuple[str, ...] = EVERY_WAY,
) -> None:
    """Raises unless every way of opening accepts; loading then comes as far as the door."""
    for way in ways:
        scene = make()
        act(scene)
        reached = watch_the_door(scene.patch)
        if way == "load":
            with pytest.raises(DoorReachedError):
                WAYS[way](scene)
            assert reached == ["model", "door"]
        else:
            WAYS[way](scene)
        scene.patch.undo()


def refusals(cases: Iterable[Case]) -> Callable[..., None]:
    """Returns the test that each of these attacks is refused."""

    @pytest.mark.parametrize("attack", _attacks(cases))
    def test(attack: Case, make_scene: Callable[[], Scene]) -> None:
        require_refused(attack, make_scene)

    return test


def acceptances(acts: dict[str, Act], ways: tuple[str, ...] = EVERY_WAY) -> Callable[..., None]:
    """Returns the test that these acts are harmless: each comes as far as the door."""

    @pytest.mark.parametrize("act", acts.values(), ids=acts)
    def test(act: Act, make_scene: Callable[[], Scene]) -> None:
        require_accepted(act, make_scene, ways=ways)

    return test


def attempt(read: Callable[[], Any]) -> tuple[Any, HushdocError | None]:
    """Returns what was read, or why it was refused."""
    try:
        return read(), None
    except HushdocError as refused:
        return None, refused


def open_files() -> int:
    """Returns how many files this process holds open."""
    return len(os.listdir("/proc/self/fd"))


def flip(path: Path, position: int, bit: int = 0) -> None:
    """Flips one bit of a file."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    """Returns what replaces the first place of some bytes, which must be there."""

    def change(content: bytes) -> bytes:
        assert old in content, f"{old!r} is not in the statement"
        return content.replace(old, new, 1)

    return change


def set_in(data: Any, path: str, value: Any, *, new: bool = False) -> None:
    """Sets a value deep in plain data: `predicate.guarantees.0.unit`; `new` adds its key."""
    *segments, last = path.split(".")
    for segment in segments:
        data = data[int(segment)] if isinstance(data, list) else data[segment]
    if isinstance(data, list):
        data[int(last)] = value
    else:
        assert (last in data) != new, f"{last} is not there to be changed"
        data[last] = value


def forged(path: str, value: Any) -> Callable[[Scene], None]:
    """Returns the act of a trusted but dishonest signer who writes another value."""
    return lambda scene: scene.forge(lambda statement: set_in(statement, path, value))


def sealed_model(make: Callable[[Any], bytes], name: str = "onnx__model_DOT_onnx") -> Act:
    """Returns the act of a signer who seals the model that is made of the builders."""
    return lambda scene: scene.seal(contents=scene.files(**{name: make(scene.build)}))


def claims_of(event: Mechanism, **change: Any) -> Act:
    """Epsilon 8 at 1e-5, claimed of this mechanism by a dishonest signer."""

    def act(scene: Scene) -> None:
        guarantee = scene.build.guarantee(**{"epsilon": 8.0, "profile": (), **change})
        certified = scene.build.certify(guarantee, transcripts={"training": event})
        scene.forge(certified=certified)

    return act


def against_server(**change: Any) -> Act:
    """The application asks about the server that coordinated training."""

    def act(scene: Scene) -> None:
        scene.demand(adversary="server")
        guarantee = scene.build.guarantee(adversary="server", **change)
        scene.forge(certified=scene.build.certify(guarantee))

    return act


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def edit_envelope(change: Callable[[dict[str, Any]], object]) -> Callable[[Scene], None]:
    """Changes the envelope's plain data."""

    def act(scene: Scene) -> None:
        data = scene.envelope()
        before = json.dumps(data)
        change(data)
        assert json.dumps(data) != before
        scene.write_envelope(data)

    return act


ED25519_ORDER = 2**252 + 27742317777372353535851937790883648493


def plus_order(signature: bytes) -> bytes:
    """S + L: the same equation holds, so a lenient verifier sees a second signature."""
    s = int.from_bytes(signature[32:], "little") + ED25519_ORDER
    return signature[:32] + s.to_bytes(32, "little")


def on_signature(change: Callable[[bytes], bytes]) -> Callable[[Scene], None]:
    def edit(data: dict[str, Any]) -> None:
        made = data["signatures"][0]
        made["sig"] = b64(change(base64.b64decode(made["sig"])))

    return edit_envelope(edit)
