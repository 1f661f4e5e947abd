"""One text has one reading; `tests/hostile/test_json.py` has the most of what is refused."""

from __future__ import annotations

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
