"""Photographs: does reading them keep the network busy, what does the decode cache save, what does CCP add?

    python tests/benchmarks/bench_images.py [--pictures 600] [--steps 20]

Reading is measured on generated JPEG files of 500 x 375 pixels (the size of CUB's), and on CUB where it is under the data
root. A step is one of EfficientNet-Lite0, 160 pixels, batch 32, on all cores. "First epoch" decodes each file for each
view, as a loader without a cache does in every epoch.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from measure import line, measure
from PIL import Image

from labkit.datasets import PhotoSet, Views, data_root, load_images
from labkit.losses import ContrastiveLoss
from labkit.models import build_photo_net
from labkit.selection import greedy_k_center

BATCH = 32


def make_pictures(folder: Path, count: int) -> Path:
    """Four classes of noisy pictures; noise makes them as costly to decode as photographs are."""
    own = np.random.default_rng(0)
    for i in range(count):
        path = folder / f"c{i % 4}" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        rough = Image.fromarray(own.integers(0, 256, (40, 53, 3), dtype=np.uint8)).resize((500, 375))
        noisy = np.asarray(rough, dtype=np.int16) + own.integers(-20, 20, (375, 500, 1), dtype=np.int16)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=90)
    return folder


def epoch(photos: PhotoSet, seed: int) -> float:
    """Pictures a second over one epoch of random views."""
    own = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(photos), generator=own)
    started, waiting = time.perf_counter(), []
    for indices in order.split(BATCH):
        waiting.append(photos.random(indices, photos.view_settings.draw(len(indices), own)))
        if len(waiting) > 3:
            waiting.pop(0).result()
    for batch in waiting:
        batch.result()
    return len(photos) / (time.perf_counter() - started)


def reading(source: Path | str, views: Views, cache: Path, title: str) -> float:
    options = {"views": views, "folds": 2, "progress": False, "unusable": "skip"}
    plain = load_images(source, keep_pixels=False, cache=cache / "facts", **options).train
    started = time.perf_counter()
    kept = load_images(source, cache=cache / "pixels", **options).train
    built = time.perf_counter() - started
    epoch(kept, 0)
    without, with_cache = epoch(plain, 1), statistics.median(epoch(kept, seed) for seed in range(2, 7))
    everything = len(kept.store)
    print(f"{title}: {everything:,} pictures decoded and kept in {built:.1f} s")
    speeds = f"first epoch {without:,.0f}/s, second {with_cache:,.0f}/s, {with_cache / without:.1f} x"
    print(f"  random views of {views.size} pixels: {speeds}")
    return with_cache


def make_step(ccp: bool):
    """A training step of EfficientNet-Lite0, with or without the projection term of CCP."""
    model = build_photo_net("efficientnet-lite0", 128, torch.Generator().manual_seed(0)).train()
    model.to(memory_format=torch.channels_last)
    loss, optimizer = ContrastiveLoss(0.0, 0.3841), torch.optim.Adam(model.parameters(), lr=1e-5)
    proxies = torch.randn(45 * 8, 128, generator=torch.Generator().manual_seed(1)).requires_grad_(ccp)
    owners, labels = torch.arange(45).repeat_interleave(8), torch.arange(8).repeat_interleave(4)
    previous = [p.detach().clone() for p in model.parameters()]
    images = torch.rand(BATCH, 3, 160, 160, generator=torch.Generator().manual_seed(2))
    images = images.contiguous(memory_format=torch.channels_last)

    def step() -> None:
        embeddings = model(images)
        value = loss(embeddings, labels, ref_emb=proxies, ref_labels=owners)
        optimizer.zero_grad()
        value.backward()
        if ccp:
            for parameter, before in zip(model.parameters(), previous):
                parameter.grad.add_(parameter.detach() - before, alpha=2e-4)
        optimizer.step()

    return step


def stepping(steps: int) -> float:
    """Seconds a step; both kinds take turns, so that a busy machine slows both."""
    plain, ccp = make_step(False), make_step(True)
    times: dict[str, list[float]] = {"plain": [], "ccp": []}
    for turn in range(steps):
        for name, step in (("plain", plain), ("ccp", ccp)) if turn % 2 else (("ccp", ccp), ("plain", plain)):
            started = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - started)
    ratio = statistics.median(c / p for c, p in zip(times["ccp"][2:], times["plain"][2:]))
    seconds = statistics.median(times["plain"][2:])
    speed = f"{1e3 * seconds:.0f} ms, {BATCH / seconds:.0f} pictures/s; with CCP x {ratio:.3f}"
    print(f"step of EfficientNet-Lite0, batch {BATCH}: {speed}")
    return BATCH / seconds


def selection():
    own = torch.Generator().manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(11_318, 11, 128, generator=own), dim=2)
    pool, centres = rows[:, :7].contiguous(), rows[:, 7:].contiguous()
    return lambda: greedy_k_center(pool, 4, initial=centres).indices.shape


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=600, help="generated pictures")
    parser.add_argument("--steps", type=int, default=20, help="pairs of training steps")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    with tempfile.TemporaryDirectory() as top:
        folder = make_pictures(Path(top) / "pictures", arguments.pictures)
        reading(folder, Views(), Path(top) / "cache", "generated, 500 x 375")
        rate = reading(folder, Views(size=160), Path(top) / "cache-160", "generated, 500 x 375")
        if (data_root() / "CUB_200_2011").is_dir():
            rate = reading("cub", Views(size=160), Path(top) / "birds", "CUB")
    step_rate = stepping(arguments.steps)
    print(f"  reading alone is {rate / step_rate:.0f} x as fast as the steps")
    print("proxies of 11,318 classes anew: 4 of 7 embeddings of 128-D beside 4 centres, the selection alone")
    print(line("labkit greedy_k_center", measure(selection, repeats=5)))


if __name__ == "__main__":
    main()
