"""Policies that say nothing, or not what they seem to: a file that can't be read is no policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hushdoc_corruption import Act, Refused, Scene, case, cases, refusals, require_accepted

from hushdoc.errors import InputError
from hushdoc.policy.policy import Policy

SOUND = """\
trust = "trust.json"
max_epsilon = 8
max_delta = 1e-5
privacy_units = ["document"]
"""


def _written(content: str | bytes) -> Act:
    def act(scene: Scene) -> None:
        (scene.outside / "trust.json").write_bytes(scene.policy.trust.to_json())
        spelled = content.encode() if isinstance(content, str) else content
        (scene.outside / "policy.toml").write_bytes(spelled)

    return act


def _with(line: str) -> Act:
    """The sound policy with one more line, or with another value of a key that it has."""
    key = line.split(" ")[0]
    kept = [found for found in SOUND.splitlines() if found.split(" ")[0] != key]
    return _written("\n".join([*kept, line, ""]))


def _without(key: str) -> Act:
    return _written("\n".join(found for found in SOUND.splitlines() if not found.startswith(key)))


REFUSED: Refused = {
    "BAD_TRUST_STORE": {
        "trust-of-another-place": _with('trust = "none.json"'),
        "trust-is-the-policy": _with('trust = "policy.toml"'),
        "trust-is-a-folder": _with('trust = "."'),
        "trust-with-nul": _with('trust = "a\\u0000b"'),
    },
    "UNIT_NOT_ACCEPTED": {
        "no-units-accept-nothing": _with("privacy_units = []"),
    },
    "KIND_NOT_ALLOWED": {
        "no-kinds-accept-nothing": _with("kinds = []"),
    },
    "UNACCOUNTED_ACCESS": {
        "no-treatments-accept-nothing": _with("treatments = []"),
        "treatments-without-accounted": _with('treatments = ["not-released"]'),
    },
    "BAD_POLICY": {
        "treatment-that-leaks": _with('treatments = ["accounted", "unaccounted"]'),
        "treatments-in-one-text": _with('treatments = "accounted"'),
        "unknown-key": _with("verify = false"),
        "unknown-key-by-a-slip": _with("max_epsilom = 1"),
        "unknown-table": _with("[policy]"),
        "key-that-only-code-sets": _with("privacy_required = false"),
        "key-twice": _written(SOUND + "max_epsilon = 80\n"),
        "epsilon-nan": _with("max_epsilon = nan"),
        "epsilon-minus-nan": _with("max_epsilon = -nan"),
        "delta-nan": _with("max_delta = nan"),
        "delta-without-its-minus-sign": _with("max_delta = 1e5"),
        "epsilon-in-quotes": _with('max_epsilon = "8"'),
        "epsilon-true": _with("max_epsilon = true"),
        "epsilon-in-a-list": _with("max_epsilon = [8]"),
        "epsilon-a-date": _with("max_epsilon = 2026-11-21"),
        "epsilon-negative": _with("max_epsilon = -1"),
        "epsilon-infinite": _with("max_epsilon = inf"),
        "epsilon-missing": _without("max_epsilon"),
        "delta-missing": _without("max_delta"),
        "units-missing": _without("privacy_units"),
        "trust-missing": _without("trust"),
        "trust-a-table": _with("trust = {keys = []}"),
        "units-in-one-text": _with('privacy_units = "document"'),
        "units-unknown": _with('privacy_units = ["documents"]'),
        "units-in-lookalike-characters": _with('privacy_units = ["d\u043ecument"]'),
        "units-of-lists": _with('privacy_units = [["document"]]'),
        "kinds-in-one-text": _with('kinds = "dp"'),
        "kinds-of-numbers": _with("kinds = [1]"),
        "kinds-in-a-table-of-flags": _with("kinds = {dp = true, empirical = false, none = false}"),
        "accountant-that-never-certifies": _with('accountants = ["gdp-clt"]'),
        "adversary-unknown": _with('adversary = "everyone"'),
        "adversary-in-a-list": _with('adversary = ["server"]'),
        "threshold-zero": _with("threshold = 0"),
        "threshold-negative": _with("threshold = -1"),
        "threshold-a-fraction": _with("threshold = 1.5"),
        "threshold-true": _with("threshold = true"),
        "threshold-of-signatures-that-nobody-asks-for": _with(
            "threshold = 2\nrequire_signature = false"
        ),
        "flag-in-quotes": _with('require_signature = "false"'),
        "flag-a-number": _with("require_full_coverage = 0"),
        "files-zero": _with("max_files = 0"),
        "bytes-a-fraction": _with("max_total_bytes = 1e9"),
        "age-zero": _with("max_age_days = 0"),
        "age-nan": _with("max_age_days = nan"),
        "age-infinite": _with("max_age_days = inf"),
        "revocation-unknown": _with('revocation = "never"'),
        "revocation-required-of-no-list": _with('revocation = "required"'),
        "revocations-a-number": _with("revocations = 3"),
        "recompute-unknown": _with('recompute = "no"'),
        "model-in-a-list": _with('model = ["invoice-kie"]'),
        "no-toml": _written('{"max_epsilon": 8}'),
        "empty": _written(""),
        "not-utf-8": _written(SOUND.encode() + b"# \xff\n"),
        "utf-16": _written(SOUND.encode("utf-16")),
        "byte-order-mark": _written(b"\xef\xbb\xbf" + SOUND.encode()),
        "nul": _written(SOUND + "\0"),
        "control-in-a-text": _with('model = "a\x1b[2J"'),
        "arrays-5000-deep": _with("x = " + "[" * 5000 + "]" * 5000),
        "number-of-5000-digits": _with("max_files = " + "9" * 5000),
        "list-with-line-feed": _with('revocations = "C:\\\\keys\\new.list"'),
        "list-with-nul": _with('revocations = "a\\u0000b"'),
        "age-before-the-first-year": _with("max_age_days = 999999"),
        "epsilon-past-a-double": _with("max_epsilon = " + "9" * 400),
    },
}

CASES = (
    *cases("policy/", REFUSED, ways=("policy",)),
    case("policy/none-given", lambda s: setattr(s, "policy", None), "NO_POLICY"),
    case("policy/only-a-trust-store", lambda s: setattr(s, "policy", s.policy.trust), "NO_POLICY"),
    case("policy/only-true", lambda s: setattr(s, "policy", True), "NO_POLICY"),
)


test_is_refused = refusals(CASES)


def test_a_sound_policy_is_followed(make_scene: Callable[[], Scene]) -> None:
    require_accepted(_written(SOUND), make_scene, ways=("policy",))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('trust = "C:\\Users\\trust.json"', r"Invalid .* In double quotes TOML takes"),
        (
            SOUND.replace("trust.json", "keys\\release.json"),
            r"control characters: .* or in single quotes",
        ),
        ('trust = "trust.json"', r"lacks the keys \['max_epsilon', 'max_delta', 'privacy_units'\]"),
        (None, r"can't be read: No such file or directory\. Check the path"),
    ],
)
def test_a_slip_in_a_policy_is_named(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "policy.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=says) as found:
        Policy.from_toml(path)
    assert found.value.code == "BAD_POLICY"
