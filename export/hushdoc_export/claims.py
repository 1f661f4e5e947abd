"""Claims of models that others trained: no guarantee is declared, and the certificate says why."""

from __future__ import annotations

import dataclasses

from hushdoc.certificate import guarantees
from hushdoc.certificate.claim import Claim, DataAccess, ProtectedData, ProtectedUnit, PublicData


def public(*data: PublicData) -> Claim:
    """Returns the claim of published weights, for which no protected data were read here.

    `data` says what the weights and the vocabulary come from.
    """
    guarantee = guarantees.no_privacy(
        "The weights were published by others, who guarantee nothing to the people in their data. "
        "No protected data were read to make this artifact.",
        observes="the released weights",
        knows="what is published about how they were trained",
        unit="document",
        unit_definition="one record of the published data that others trained on",
        composition="one release of published weights",
        hyperparameter_tuning="public-data",
        floating_point="weights are kept as they were published",
    )
    return Claim(
        protected_data=(),
        public_data=data,
        data_accesses=(),
        releases=("final-weights",),
        guarantees=(guarantee,),
        transcripts={},
        audits=(),
        training={},
        utility={},
        caveats=(
            "Loading it needs a policy that requires no privacy, since no guarantee is declared.",
        ),
    )


def trained_elsewhere(name: str, *, architecture: str) -> Claim:
    """Returns the claim of a model that others trained on protected data without privacy.

    `architecture` is its class in transformers.
    """
    guarantee = guarantees.no_privacy(
        "Training was not private: the weights may hold any part of any document.",
        observes="the released weights",
        knows="all other records, all settings, and how training works",
        unit="document",
        unit_definition="one document with all its pages",
        composition="one training run; its final weights are the only release",
        floating_point="no noise was drawn",
    )
    documents = ProtectedData(
        name=name,
        units=(ProtectedUnit(unit="document", count=None, count_is_public=False),),
        contribution_bound="none: training was not private",
    )
    access = DataAccess(data=name, purpose="training", accounted_in=(), treatment="unaccounted")
    return dataclasses.replace(
        public(),
        protected_data=(documents,),
        data_accesses=(access,),
        guarantees=(guarantee,),
        training={"architecture": architecture},
        caveats=("Whoever receives this model may extract documents it was trained on.",),
    )
