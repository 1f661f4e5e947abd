"""A checkpoint of a pointer becomes an artifact, from the command line too."""

from __future__ import annotations

import json
from pathlib import Path

import hushdoc_command_runs
import hushdoc_tiny as tiny
import pytest
from hushdoc_documents import document

import hushdoc
from hushdoc.errors import CheckpointError
from hushdoc.signing import keys
from hushdoc_export import docvqa
from hushdoc_training import docvqa_checkpoint

hushdoc_tiny_models = pytest.importorskip("hushdoc_tiny_models")


def saved(folder: Path, **change: object) -> Path:
    model = hushdoc_tiny_models.pointer()
    docvqa_checkpoint.save(
        folder,
        asking=tiny.asking(**change),
        claim=tiny.claim(),
        tokenizer_json=tiny.tokenizer_json(),
        save_weights=model.save,
    )
    return folder


def test_hushdoc_export_seals_a_checkpoint_of_a_pointer(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path / "checkpoint")
    keys.write_private_key(tiny.KEY, tmp_path / "key.pem")
    out = tmp_path / "artifact"
    given = ["--out", str(out), "--key", str(tmp_path / "key.pem"), "--name", "tiny-kie"]
    assert hushdoc_command_runs.run("export", str(tmp_path), *given) == 0
    assert hushdoc.verify(out, tiny.policy()).passed
    manifest = json.loads((out / "hushdoc.json").read_text())
    assert manifest["preprocessing"] == tiny.asking().to_dict()
    assert [port["name"] for port in manifest["outputs"]] == ["spans"]
    card = (out / "README.md").read_text()
    assert "hushdoc ask . document.pdf -q 'What is the total?' --policy policy.toml" in card
    certificate = hushdoc.DocVQAModel.load(out, policy=tiny.policy()).certificate
    [step] = certificate.derivation
    assert step["architecture"] == "layoutlm"
    assert len(str(step["from"])) == len("sha256:") + 64
    asked = document(9, 70)
    answers = [
        hushdoc.DocVQAModel.load(folder, policy=tiny.policy()).ask(asked, "Who?", top_k=3)
        for folder in (out, tiny.sealed_pointer())
    ]
    assert answers[0] == answers[1]
    assert checkpoint.is_dir()


def test_weights_of_another_kind_and_encoders_without_boxes_are_refused(tmp_path: Path) -> None:
    written = {"kind": "vt5", "cls_id": None, "sep_id": None, "eos_id": 3, "prompt": "{question}"}
    folder = saved(tmp_path / "checkpoint", **written)
    with pytest.raises(CheckpointError, match="can't be read"):
        docvqa.export(folder, tmp_path / "out", tiny.release())
    bare = hushdoc_tiny_models.pointer_on(hushdoc_tiny_models.model("bert"))
    with pytest.raises(CheckpointError, match="reads no boxes"):
        docvqa.export_pointer(
            bare,
            tmp_path / "out",
            tiny.release(),
            asking=tiny.asking(),
            tokenizer_json=tiny.tokenizer_json(),
            claim=tiny.claim(),
        )
    assert not (tmp_path / "out").exists()
