"""Files in hostile hands: flipped, cut, swapped, replaced by what is no file, planted beside."""

from __future__ import annotations

import os
import pickle
import socket
import tempfile
from pathlib import Path

from hushdoc_corruption import MODEL, Act, Refused, Scene, acceptances, cases, flip, refusals


def _replace(scene: Scene, name: str) -> Path:
    path = scene / name
    path.unlink()
    return path


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(content)


def _swap(one: Path, other: Path) -> None:
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)


def _swap_equal_sizes(scene: Scene) -> None:
    scene.seal(contents=scene.files(a_DOT_json=b"[1]", b_DOT_json=b"[2]"))
    _swap(scene / "a.json", scene / "b.json")


def _zeros_of_equal_size(scene: Scene) -> None:
    path = scene / MODEL
    size = path.stat().st_size
    path.write_bytes(b"")
    os.truncate(path, size)


def _bind_socket(scene: Scene) -> None:
    path = _replace(scene, "labels.json")
    # A socket's path may have 108 letters only, so it is bound by a short one.
    short = Path(tempfile.gettempdir()) / f"hostile-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(short))
    short.rename(path)


def _link(name: str, target: str) -> Act:
    return lambda scene: _replace(scene, name).symlink_to(target)


def _link_outside(scene: Scene) -> None:
    # Its content is even the signed one: where it stands is what is wrong.
    content = (scene / "labels.json").read_bytes()
    (scene.outside / "labels.json").write_bytes(content)
    _replace(scene, "labels.json").symlink_to("../labels.json")


def _link_loop(scene: Scene) -> None:
    _replace(scene, "labels.json").symlink_to("tokenizer.json")
    _replace(scene, "tokenizer.json").symlink_to("labels.json")


def _long_chain(scene: Scene) -> None:
    content = (scene / "labels.json").read_bytes()
    (scene / "README.md").write_bytes(content)
    for number in range(5):
        target = "README.md" if number == 0 else f"link{number - 1}"
        (scene / f"link{number}").symlink_to(target)
    _replace(scene, "labels.json").symlink_to("link4")


def _false_cache(scene: Scene) -> None:
    """A store of files that only looks like the cache's: the folder above is not `snapshots`."""
    content = (scene / "labels.json").read_bytes()
    away = scene.outside / "elsewhere" / "revision"
    away.parent.mkdir()
    scene.folder.rename(away)
    (scene.outside / "blobs").mkdir()
    (scene.outside / "blobs" / "x").write_bytes(content)
    scene.folder = away
    _replace(scene, "labels.json").symlink_to("../../blobs/x")


def _folder_link(scene: Scene) -> None:
    (scene / "onnx").rename(scene.outside / "onnx")
    (scene / "onnx").symlink_to("../onnx")


def _folder_link_inside(scene: Scene) -> None:
    (scene / "onnx").rename(scene / "other")
    (scene / "onnx").symlink_to("other")


def _case_twin(scene: Scene) -> None:
    (scene / "labels.json").rename(scene / "Labels.json")


def _plant(name: str, content: bytes = b"x") -> Act:
    def act(scene: Scene) -> None:
        (scene / name).parent.mkdir(parents=True, exist_ok=True)
        (scene / name).write_bytes(content)

    return act


def _plant_many(scene: Scene) -> None:
    # Whichever entry the system names first: the folder is not read to its end.
    scene.demand(max_files=4)
    for number in range(500):
        (scene / f"x{number}").write_bytes(b"")


def _sign_a_huge_size(scene: Scene) -> None:
    scene.forge(lambda statement: statement["subject"][0]["annotations"].update(size=1 << 40))


def _sign_without_manifest(scene: Scene) -> None:
    scene.forge(
        lambda statement: statement["subject"].__delitem__(
            [item["name"] for item in statement["subject"]].index("hushdoc.json")
        )
    )


def _dangling_into_itself(scene: Scene) -> None:
    _replace(scene, "labels.json").symlink_to("onnx/none.json")


def _file_instead(scene: Scene) -> None:
    scene.folder = scene.folder / "labels.json"


class _Exploit:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("false",)


def _flipped(name: str, position: int) -> Act:
    return lambda scene: flip(scene / name, position, position % 8)


REFUSED: Refused = {
    "SIZE_MISMATCH": {
        "truncated-by-one": lambda s: os.truncate(s / MODEL, 5),
        "truncated-to-nothing": lambda s: os.truncate(s / MODEL, 0),
        "extended-by-one": lambda s: _append(s / MODEL, b"\0"),
        "swapped": lambda s: _swap(s / "labels.json", s / "tokenizer.json"),
        "sparse-one-tebibyte": lambda s: os.truncate(s / MODEL, 1 << 40),
        "link-to-another-file": _link("labels.json", "tokenizer.json"),
    },
    "DIGEST_MISMATCH": {
        **{
            f"bit-flip-{name}-{position}": _flipped(name, position)
            for name in ("hushdoc.json", "labels.json", "tokenizer.json", MODEL)
            for position in (0, -1)
        },
        "swapped-equal-sizes": _swap_equal_sizes,
        "zeros-of-equal-size": _zeros_of_equal_size,
    },
    "MISSING_FILE": {
        "deleted": lambda s: (s / "labels.json").unlink(),
        "folder-deleted": lambda s: ((s / MODEL).unlink(), (s / "onnx").rmdir()),
        "link-to-nothing": _dangling_into_itself,
        "other-case-of-a-name": _case_twin,
        "manifest-not-signed": _sign_without_manifest,
    },
    "TOO_LARGE": {
        "one-tebibyte-is-signed": _sign_a_huge_size,
        "more-files-than-allowed": lambda s: s.demand(max_files=3),
        "more-bytes-than-allowed": lambda s: s.demand(max_total_bytes=9),
    },
    "NOT_REGULAR_FILE": {
        "fifo": lambda s: os.mkfifo(_replace(s, "labels.json")),
        "socket": _bind_socket,
        "folder": lambda s: _replace(s, "labels.json").mkdir(),
        "planted-fifo": lambda s: os.mkfifo(s / "pipe"),
    },
    "PATH_ESCAPE": {
        "link-to-dev-zero": _link("labels.json", "/dev/zero"),
        "link-to-passwords": _link("labels.json", "/etc/passwd"),
        "link-to-standard-input": _link("labels.json", "/proc/self/fd/0"),
        "link-out": _link_outside,
        "link-out-and-back": _link("labels.json", "../invoice-kie/tokenizer.json"),
        "planted-readme-is-a-link-out": lambda s: (s / "README.md").symlink_to("/etc/passwd"),
    },
    "SYMLINK": {
        "link-into-a-false-cache": _false_cache,
        "link-to-itself": _link("labels.json", "labels.json"),
        "link-loop": _link_loop,
        "link-chain-too-long": _long_chain,
        "link-to-its-folder": _link("labels.json", "."),
        "folder-is-a-link-out": _folder_link,
        "folder-is-a-link-inside": _folder_link_inside,
        "planted-link": lambda s: (s / "more.json").symlink_to("labels.json"),
        "planted-git-is-a-link": lambda s: (s / ".git").symlink_to("/"),
    },
    "UNLISTED_FILE": {
        "link-to-an-unlisted-file": lambda s: (
            (s / "labels.json").rename(s / "x"),
            (s / "labels.json").symlink_to("x"),
        ),
        "planted-library": _plant("libcustom_ops.so", b"\x7fELF"),
        "planted-pickle": _plant("model.pkl", pickle.dumps(_Exploit())),
        "planted-external-data": _plant("onnx/model.onnx.data"),
        "planted-code": _plant("modeling_kie.py", b"import os"),
        "planted-hidden": _plant(".bashrc"),
        "planted-deep-readme": _plant("onnx/README.md"),
        "planted-readme-of-other-case": _plant("readme.md"),
        "planted-second-envelope": _plant("privacy.intoto.json"),
        "planted-git-file": _plant(".git", b"gitdir: /"),
        "planted-deep-git": lambda s: (s / "onnx/.git").mkdir(),
        "planted-folder": lambda s: (s / "empty").mkdir(),
        "planted-folder-as-readme": lambda s: (s / "README.md").mkdir(),
        "planted-escape-sequence": _plant("a\x1b[2J\u202eb"),
        "planted-undecodable-name": _plant("a\udcff"),
        "planted-decomposed-twin": _plant("re\u0301sume\u0301.json"),
        "planted-by-the-hundred": _plant_many,
    },
    "BAD_ARTIFACT": {
        "artifact-is-a-file": _file_instead,
        "artifact-is-not-there": lambda s: s.folder.rename(s.outside / "x"),
        "artifact-is-a-fifo": lambda s: (s.folder.rename(s.outside / "x"), os.mkfifo(s.folder)),
    },
}

CASES = cases("files/", REFUSED)


test_is_refused = refusals(CASES)


def _hard_link(scene: Scene) -> None:
    os.link(scene / "labels.json", scene.outside / "labels.json")


test_what_is_harmless_comes_as_far_as_the_door = acceptances(
    {
        "untouched": lambda scene: None,
        "readme": lambda scene: (scene / "README.md").write_text("x"),
        "git": lambda scene: (scene / ".git" / "objects").mkdir(parents=True),
        "as-many-files-as-allowed": lambda scene: scene.demand(max_files=4),
        "cache": Scene.move_into_cache,
        "hard-link": _hard_link,
    }
)
