"""DP-DocLDM (Saifullah et al., 2025): synthetic pages from one private diffusion model per label.

Settings are those of the paper's section 5.2 for RVL-CDIP with layout conditioning and per-label
training at epsilon 10. It gives the target of the noise (by Renyi accounting), not the noise.
"""

from __future__ import annotations

from typing import Any

from examples import parts
from hushdoc.accounting.mechanism import Composed, Gaussian, Mechanism, Parallel, PoissonSampled
from hushdoc.certificate import guarantees
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Claim, ProtectedData, ProtectedUnit, PublicData

DATA = "RVL-CDIP training pages"
NUM_PAGES, NUM_LABELS = 320_000, 16
PAGES_OF_A_LABEL = NUM_PAGES // NUM_LABELS
BATCH_SIZE, EPOCHS, DELTA = 1096, 50, 1 / NUM_PAGES
STEPS = EPOCHS * PAGES_OF_A_LABEL // BATCH_SIZE
NOISE_MULTIPLIER = 1.17
"""Renyi accounting gives epsilon 10.0 at DELTA for it."""


def dp_docldm() -> Certificate:
    """Returns what holds for the synthetic pages as published, and given public layouts."""
    transcripts: dict[str, Mechanism] = {"training": per_label()}
    terms: dict[str, Any] = {
        "knows": parts.ALL_BUT_ONE,
        "unit": "page",
        "unit_definition": "one scanned page with its label",
        "adjacency": "add-remove",
        "sampling_as_implemented": "poisson",
        "floating_point": "not given in the paper",
    }
    all_three = (
        parts.no_privacy(
            "Sampling starts from the layout masks of private pages, which are released with the "
            "synthetic pages as they are: where text stands on a private page can be read off.",
            adversary="synthetic-data-recipient",
            observes="the synthetic pages and their labels",
            composition="layout masks without privacy, and private training",
            **terms,
        ),
        parts.no_privacy(
            "The classifier learned from the synthetic pages, so it can hold whatever they hold, "
            "layouts of private pages included.",
            observes="the weights of a classifier trained on the synthetic pages",
            composition="post-processing of the synthetic pages",
            **terms,
        ),
        guarantees.conditional(
            parts.differential_privacy(
                transcripts,
                "training",
                delta=DELTA,
                profile=(1e-5, 1e-6),
                adversary="synthetic-data-recipient",
                observes="the synthetic pages and their labels",
                assumes=(
                    "how many pages each label has is public, and so are rates and noise",
                    "a page is added or removed with its label; one whose label changes counts in "
                    "two of the models, and costs both",
                    "the norm is taken of the mean over all noise levels drawn for a page",
                ),
                composition="one run for each label on its own pages, so the largest counts",
                **terms,
            ),
            "the layout masks that sampling starts from are public or come from a private "
            "generator; as published they don't, and the first guarantee holds",
        ),
    )
    claim = Claim(
        protected_data=(_protected(),),
        public_data=_PUBLIC,
        data_accesses=_ACCESSES,
        releases=("synthetic-records", "final-weights"),
        guarantees=all_three,
        transcripts=transcripts,
        audits=(),
        training={
            "source": "DP-DocLDM, sections 4.2, 5.1 and 5.2, appendix B",
            "published": "epsilon 10 (Renyi) at delta 1/320000 per page",
            "labels": NUM_LABELS,
            "batchSize": BATCH_SIZE,
            "epochs": EPOCHS,
            "noiseMultiplier": NOISE_MULTIPLIER,
        },
        utility={},
        caveats=_CAVEATS,
    )
    return parts.certify("dp-docldm", claim, task="classification")


def per_label() -> Parallel:
    """Returns the training of one diffusion model for each label."""
    return Parallel(events=(one_label(),) * NUM_LABELS)


def one_label(
    *, num_pages: int = PAGES_OF_A_LABEL, noise_multiplier: float = NOISE_MULTIPLIER
) -> Composed:
    """Returns the training of one label's model; few pages are all in every batch."""
    rate = min(1.0, BATCH_SIZE / num_pages)
    step = PoissonSampled(sampling_rate=rate, event=Gaussian(noise_multiplier=noise_multiplier))
    return Composed(event=step, count=max(EPOCHS, EPOCHS * num_pages // BATCH_SIZE))


def _protected() -> ProtectedData:
    return ProtectedData(
        name=DATA,
        units=(ProtectedUnit(unit="page", count=NUM_PAGES, count_is_public=True),),
        contribution_bound=(
            "The gradient of a page's mean loss is clipped to 0.01 in the Euclidean norm. Its "
            "layout mask, used again at sampling, is not bounded by anything."
        ),
    )


_PUBLIC = (
    PublicData(
        name="IIT-CDIP Test Collection 1.0",
        uses=("pretraining of the autoencoder", "pretraining of the diffusion model"),
        privacy_status="public scans",
        overlap_with_protected="contained",
    ),
)
_ACCESSES = (
    parts.access(DATA, "training of one model for each label", "accounted", "training"),
    parts.access(DATA, "layout masks that sampling starts from", "unaccounted"),
    parts.access(DATA, "choice of conditioning and training by scores", "unaccounted"),
    parts.access(DATA, "number of pages of each label", "declared-public"),
    parts.access(DATA, "names of the labels", "declared-public"),
)
_CAVEATS = (
    parts.NOT_A_MODEL,
    "RVL-CDIP is a part of IIT-CDIP, so the pretrained weights had seen the protected pages before "
    "private training began.",
    "delta is one over the number of pages, as published. Such a delta would allow a method that "
    "publishes one random page.",
    "Models trained with the paper's DP-Promise variant have no guarantee: the target of its "
    "first phase is the noise itself, and a noisy page with its noise gives the page back.",
    "Publishing one over the standard deviation of a private batch, as code for such models does "
    "to scale latents, is a further release that nothing here covers.",
    "On small labels a batch of 1096 holds every page, so nothing is gained by sampling there.",
)
