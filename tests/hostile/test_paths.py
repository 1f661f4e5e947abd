"""Names of files that lead elsewhere, or are another name on another system.

Each stands in a statement that the trusted key signed; the file lies there under its sound name.
"""

from __future__ import annotations

from typing import Any

from hushdoc_corruption import Act, Refused, acceptances, cases, forged, refusals

HOSTILE = {
    "parent": "../labels.json",
    "parent-inside": "onnx/../labels.json",
    "parent-at-the-end": "onnx/..",
    "parent-alone": "..",
    "parent-of-windows": "..\\labels.json",
    "here": "./labels.json",
    "here-alone": ".",
    "absolute": "/etc/passwd",
    "absolute-twice": "//server/share/x",
    "backslash": "onnx\\model.onnx",
    "share-of-windows": "\\\\server\\share",
    "drive": "C:labels.json",
    "drive-with-slash": "C:/labels.json",
    "stream": "labels.json:evil",
    "address": "file:///etc/passwd",
    "home": "~/labels.json",
    "variable": "$HOME/x",
    "percent": "%2e%2e%2flabels.json",
    "device-nul": "nul.json",
    "device-con": "CON",
    "device-aux-in-a-folder": "onnx/aux.onnx",
    "device-com": "com1.txt",
    "device-lpt-as-a-folder": "LPT9/model.onnx",
    "dot-at-the-end": "labels.json.",
    "blank-at-the-end": "labels.json ",
    "blank-inside": "labels .json",
    "slash-at-the-end": "onnx/",
    "slash-twice": "onnx//model.onnx",
    "slash-alone": "/",
    "hidden": ".labels.json",
    "dash-in-front": "-rf",
    "empty": "",
    "nul": "labels.json\0.txt",
    "line-end": "labels.json\n",
    "escape-sequence": "labels\x1b[2J.json",
    "right-to-left": "labels\u202enosj.",
    "homoglyph": "l\u0430bels.json",
    "fullwidth-dots": "\uff0e\uff0e/labels.json",
    "fullwidth-slash": "onnx\uff0fmodel.onnx",
    "ligature": "\ufb01le.json",
    "composed-accent": "r\u00e9sum\u00e9.json",
    "decomposed-accent": "re\u0301sume\u0301.json",
    "letter-of-no-width": "labels\u200b.json",
    "short-name-of-windows": "HUSHDO~1.JSO",
    "five-segments": "a/b/c/d/e.json",
    "201-characters": "x" * 201,
    "the-envelope": "privacy.intoto.jsonl",
    "the-envelope-of-other-case": "Privacy.InToto.jsonl",
}


def _rename(name: str) -> Act:
    return forged("subject.1.name", name)


def _entry(name: str) -> Act:
    return forged("predicate.model.entry", name)


def _add(*names: str) -> Act:
    """Signs more files, all with the content of the first."""

    def edit(statement: dict[str, Any]) -> None:
        first = statement["subject"][0]
        statement["subject"] += [{**first, "name": name} for name in names]

    return lambda scene: scene.forge(edit)


def _subject(**change: Any) -> Act:
    return lambda scene: scene.forge(lambda statement: statement["subject"][1].update(change))


REFUSED: Refused = {
    "BAD_SUBJECT": {
        "case-twins": _add("Labels.json"),
        "case-twins-of-a-folder": _add("ONNX/more.json"),
        "one-name-twice": _add("labels.json"),
        "file-and-folder": _add("labels.json/more.json"),
        "name-is-a-number": _subject(name=1),
        "name-is-null": _subject(name=None),
        "address-beside-the-name": _subject(uri="https://example.com"),
        "digest-missing": _subject(digest={}),
        "digest-of-another-kind": _subject(digest={"md5": "0" * 32}),
        "second-digest": _subject(digest={"sha256": "0" * 64, "sha512": "0" * 128}),
        "digest-in-capitals": _subject(digest={"sha256": "A" * 64}),
        "digest-cut": _subject(digest={"sha256": "0" * 63}),
        "digest-is-a-list": _subject(digest={"sha256": ["0"] * 64}),
        "size-missing": _subject(annotations={}),
        "size-negative": _subject(annotations={"size": -1}),
        "size-is-true": _subject(annotations={"size": True}),
        "size-is-a-fraction": _subject(annotations={"size": 1.5}),
        "size-is-a-text": _subject(annotations={"size": "1"}),
        "no-files": forged("subject", []),
        "files-in-an-object": forged("subject", {}),
        "1001-files": _add(*(f"x{n}" for n in range(997))),
        "entry-not-signed": _entry("onnx/other.onnx"),
        "entry-outside": _entry("../model.onnx"),
        "entry-of-other-case": _entry("ONNX/model.onnx"),
        "entry-in-lookalike-characters": _entry("onnx/m\u043edel.onnx"),
    },
    "BAD_PATH": {
        **{name: _rename(found) for name, found in HOSTILE.items()},
        # The Kelvin sign lower-cases to k; it never gets as far as being a twin.
        "case-twin-by-kelvin": _add("to\u212aenizer.json"),
    },
    "BAD_MANIFEST": {
        "entry-is-the-manifest": _entry("hushdoc.json"),
    },
    "BAD_FIELD": {
        "entry-is-no-text": _entry(["onnx/model.onnx"]),
    },
}

CASES = cases("paths/", REFUSED)


test_is_refused = refusals(CASES)


def _sealed_with(name: str) -> Act:
    return lambda scene: scene.seal(contents={**scene.files(), name: b"x"})


test_what_is_harmless_comes_as_far_as_the_door = acceptances(
    {
        name: _sealed_with(name)
        for name in ("a/b/c/d.json", "x" * 200, "nullable.json", "con2", "A-1_b..c.json")
    }
)
