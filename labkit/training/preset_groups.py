"""Which presets belong together, by their names: one line on each group, for people who look for one."""

from __future__ import annotations

import re
from collections.abc import Iterable

DATA = {"cub": "CUB-200-2011", "cars": "Cars196", "sop": "Stanford Online Products", "in-shop": "In-shop Clothes"}
TRUNKS = {"bn": "BN-Inception", "r50": "ResNet50"}
ANY = "|".join(DATA)


def group_of(name: str) -> str:
    """What the group of a preset is, in a line.

    Examples
    --------
    >>> group_of("conventional-bn-sop-c2")
    'Stanford Online Products, conventional protocol: BN-Inception, 512-D, one model, its last weights'
    """
    if found := re.match(rf"conventional-({'|'.join(TRUNKS)})-({ANY})-", name):
        return f"{DATA[found[2]]}, conventional protocol: {TRUNKS[found[1]]}, 512-D, one model, its last weights"
    if name.startswith("cub-lite0-"):
        return f"{DATA['cub']} on two processor cores: EfficientNet-Lite0, 128-D, 160 pixels, one fold (recorded; see the README)"
    if found := re.match(rf"({ANY})-(rll|proxy-gml)", name):
        return f"{DATA[found[1]]}, as Ranked List Loss and ProxyGML were published: conventional protocol, one model"
    if found := re.match(rf"({ANY})-", name):
        return f"{DATA[found[1]]}, MLRC protocol: BN-Inception, 128-D, one fold validates (--fold all: four models)"
    for start, told in (
        ("poc-", "Digits, the proof of concept in half a minute: the small net, two dimensions"),
        ("mnist-unseen-", "Digits 0 to 4 to learn, 5 to 9 to judge: the small net, 64-D, every loss"),
        ("mnist-2d-", "Digits on the plane: ResNet20 v2 for a pair loss with its method, the small net for a loss alone"),
    ):
        if name.startswith(start):
            return told
    return "Others"


def listing(names: Iterable[str], words: Iterable[str] = ()) -> str:
    """The names that hold all of `words`, a line each, below a line "# <group>"; groups in the order in which they appear."""
    wanted, groups = list(words), dict[str, list[str]]()
    for name in names:
        if all(word in name for word in wanted):
            groups.setdefault(group_of(name), []).append(name)
    return "".join(f"# {group}\n" + "".join(f"{name}\n" for name in found) for group, found in groups.items())
