"""One text has one reading; `tests/hostile/test_json.py` has the most of what is refused."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.errors import CertificateError, InputError
from hushdoc.serialization import strict_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc"), inner, max_size=4),
    max_leaves=10,
)


@given(VALUES)
def test_what_is_written_is_read_back(value: object) -> None:
    assert strict_json.loads(strict_json.dumps(value), what="The value") == value


@pytest.mark.parametrize(
    "content",
    [
        b'[{"b":{"a":1,"a":1}}]',
        b"-1e400",
        b"0.0000001e-400",
        b"-9007199254740992",
        b'"\\ud800\\u0041"',
        b'{"a":' * 33 + b"1" + b"}" * 33,
    ],
)
def test_everything_else_is_refused(content: bytes) -> None:
    with pytest.raises(CertificateError) as caught:
        strict_json.loads(content, what="The value")
    assert caught.value.code == "BAD_STATEMENT"


def test_a_long_text_that_is_no_certificate_has_its_readers_code(tmp_path: Path) -> None:
    content = b" " * (strict_json.MAX_BYTES + 1)
    with pytest.raises(CertificateError) as caught:
        strict_json.loads(content, what="The value")
    assert caught.value.code == "CERT_TOO_LARGE"
    (tmp_path / "store.json").write_bytes(content)
    with pytest.raises(InputError) as refused:
        strict_json.read_file(tmp_path / "store.json", what="It", code="BAD_TRUST_STORE")
    assert refused.value.code == "BAD_TRUST_STORE"


def test_depth_counts_brackets_outside_of_strings_only() -> None:
    assert strict_json.loads(b"[" * 32 + b"]" * 32, what="The value")
    text = b'["' + b"[" * 100 + b'\\"]"]'
    assert strict_json.loads(text, what="The value") == ["[" * 100 + '"]']


def test_zero_may_be_spelled_as_one_likes() -> None:
    assert strict_json.loads(b"[0.0, 0e-400, -0.0]", what="The value") == [0, 0, 0]


def test_a_file_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        strict_json.read_file(tmp_path / "none.json", what="The store", code="BAD_TRUST_STORE")
    assert caught.value.code == "BAD_TRUST_STORE"


def test_nan_is_never_written() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        strict_json.dumps(float("nan"))


UNTERMINATED: dict[str, str] = {
    "quotes": '"',
    "escaped-quotes": '\\"',
    "quote-and-backslash": '"\\',
    "backslashes": "\\",
    "text-and-escapes": 'a\\"',
    "brackets-after-escapes": '[\\"',
}
"""What a text of nothing else repeats; a scan that begins anew at each quote is quadratic."""


@pytest.mark.parametrize("piece", UNTERMINATED.values(), ids=list(UNTERMINATED))
def test_time_grows_no_faster_than_a_text_without_an_end(piece: str) -> None:
    def seconds(size: int) -> float:
        content = b'"' + (piece * size).encode()[: size - 1]
        return min(_seconds(content) for _ in range(7))

    times = [seconds(size) for size in (2048, 16 * 1024, 128 * 1024)]
    # Eight times the text takes eight times as long; a quadratic scan, 64 times.
    assert all(later < 30 * max(earlier, 1e-4) for earlier, later in pairwise(times)), times
    assert seconds(512 * 1024) < 1


def _seconds(content: bytes) -> float:
    """What refusing a text costs this thread, however busy the machine is."""
    begun = time.thread_time()
    with pytest.raises(CertificateError):
        strict_json.loads(content, what="The envelope", max_bytes=2**20)
    return time.thread_time() - begun


@pytest.mark.parametrize(
    ("inside", "is_sound"),
    [
        ('"[[[["', True),
        (r'"\"[[[["', True),
        (r'"\\"', True),
        (r'"\\",[[]]', False),
        (r'"\\\"[[[["', True),
        ('"","",[[]]', False),
        (r'"\u005b[[","]]"', True),
        ('"a",{"[":[]}', False),
        ('"\u00e4[[\U0001d54f[["', True),
    ],
)
def test_strings_end_where_json_ends_them(inside: str, is_sound: bool) -> None:
    """31 lists around a piece: one level more inside is allowed, two are not."""
    text = ("[" * 31 + inside + "]" * 31).encode()
    if is_sound:
        assert strict_json.loads(text, what="The value") is not None
    else:
        with pytest.raises(CertificateError, match="deeper than 32"):
            strict_json.loads(text, what="The value")


@given(VALUES, st.integers(0, 32))
def test_depth_is_that_of_the_value(value: object, around: int) -> None:
    for _ in range(around):
        value = [value]
    text = json.dumps(value).encode()
    if _levels(value) <= 32:
        assert strict_json.loads(text, what="The value") == value
    else:
        with pytest.raises(CertificateError, match="deeper than 32"):
            strict_json.loads(text, what="The value")


def _levels(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_levels, inner), default=0)  # type: ignore[arg-type]
