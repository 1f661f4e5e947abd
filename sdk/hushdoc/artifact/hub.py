"""Hub: artifacts of a model hub, by a name that pins the revision; nothing else asks a network.

Contract: what the hub sends is checked as any folder is, by the digests that its certificate signs;
nothing that it sends is executed, and no file is taken that an artifact doesn't have.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from hushdoc import arguments
from hushdoc.errors import ArtifactError, needs_extra

SCHEME = "hf://"

_SILENT = "HF_HUB_DISABLE_TELEMETRY"
_NAME = re.compile(r"hf://([\w.-]{1,96}/[\w.-]{1,96})@([0-9a-f]{40})")
_FILES = ["hushdoc.json", "labels.json", "privacy.intoto.jsonl", "tokenizer.json", "onnx/*"]
_FILES += ["*.safetensors", "*.jsonl", "*.png"]
"""What artifacts of any task hold; the certificate lists which of them have to be there."""


def located(path: object) -> Path:
    """Returns the folder of an artifact, given by its path or as "hf://ORGANISATION/NAME@REVISION".

    The latter is taken from the cache of huggingface_hub, or fetched into it. A revision is the
    whole hash of a commit: names of branches and tags may lead elsewhere tomorrow.

    Raises:
        InputError: It is no path.
        ArtifactError: HUB_NAME: no revision is pinned. HUB_FAILED: the hub did not send it.
        MissingExtraError: huggingface_hub is not installed.
    """
    if not (isinstance(path, str) and path.startswith(SCHEME)):
        return arguments.path(path, what="The artifact's folder")
    found = _NAME.fullmatch(path)
    if found is None:
        raise ArtifactError(
            f"{arguments.short_repr(path, 200)} pins no revision; expected "
            "hf://ORGANISATION/NAME@REVISION, with the 40 digits of a commit. Look it up on the "
            "hub, and check the certificate of that revision.",
            code="HUB_NAME",
        )
    os.environ[_SILENT] = "1"
    with needs_extra("huggingface_hub", "hub"):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    try:
        folder = snapshot_download(found[1], revision=found[2], allow_patterns=_FILES)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ArtifactError(
            f"The hub did not send {arguments.short_repr(path, 200)}: "
            f"{arguments.printable(first, 300)}. Check the name, the revision, the network and the "
            "access token, or load the folder of a copy.",
            code="HUB_FAILED",
        ) from error
    return Path(folder)
