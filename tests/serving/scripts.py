"""Networks as files of TorchScript, sealed as labkit seals them, with a card that need not be theirs."""

import io

import torch

from labkit.serving import ModelCard
from labkit.serving.formats import CARD
from labkit.serving.seal import seal

CARD_2 = ModelCard("x", "x", 1, 8, 8, False, 2, "none", (0.0,), (1.0,), "")


def script(module, path, card=CARD_2):
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(module), file, _extra_files={CARD: card.to_json()})
    path.write_bytes(seal(file.getvalue(), ".pt"))
    return path
