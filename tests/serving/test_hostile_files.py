"""Files from elsewhere: nothing in them is run, and what is damaged is told as that."""

import io
import json
import os
import random
import struct
import zipfile

import pytest
import torch

from labkit.errors import LabError
from labkit.serving import export_model, load_exported
from labkit.serving.formats import SUFFIXES
from labkit.serving.screening import screen_program
from labkit.serving.seal import check_seal, seal
from tests.serving.scripts import script


class Touches:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def pickled(path):
    file = io.BytesIO()
    torch.save(Touches(path), file)
    return file.getvalue()


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(parts):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A small model's bytes in each format."""
    from labkit.serving import WholeModel
    from labkit.training import Experiment, Trainer

    settings = {"steps": 1, "evaluate_every": 1, "sample_size": 50, "data.source": "digits-8x8"}
    trainer = Trainer(Experiment.preset("poc-ccp", **settings))
    trainer.run(progress=False)
    folder, model = tmp_path_factory.mktemp("exported"), WholeModel.of(trainer)
    return {suffix: export_model(model, folder / f"m{suffix}").read_bytes() for suffix in SUFFIXES}


def edited_json(parts, name, change):
    facts = json.loads(parts[name])
    change(facts)
    return parts | {name: json.dumps(facts).encode()}


def first(facts, key):
    """The first dictionary with that key, at any depth."""
    waiting = [facts]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if key in one:
                return one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    raise AssertionError(key)


MODEL, WEIGHTS = "archive/models/model.json", "archive/data/weights/model_weights_config.json"


def example_is_an_object(parts, trap):
    return parts | {"archive/data/sample_inputs/model.pt": pickled(trap)}


def weight_is_an_object(parts, trap):
    def change(facts):
        first(facts, "use_pickle")["use_pickle"] = True

    return edited_json(parts, WEIGHTS, change) | {f"archive/data/weights/weight_{i}": pickled(trap) for i in range(40)}


def older_weights(parts, trap):
    return parts | {"archive/data/weights/model.pt": pickled(trap)}


def older_format(parts, trap):
    return parts | {"version": b"8.20", "serialized_state_dict.pt": pickled(trap)}


def constant_is_an_object(parts, trap):
    entry = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    name = "archive/data/constants/model_constants_config.json"
    edited = edited_json(parts, name, lambda facts: facts["config"].update(c=entry))
    return edited | {"archive/data/constants/opaque_obj_0": pickled(trap)}


def compiled_code(parts, trap):
    return parts | {"archive/data/aotinductor/model/model.so": b"\x7fELF"}


def size_is_python(parts, trap):
    program = f"__import__('os').mkdir({str(trap)!r})"
    return edited_json(parts, MODEL, lambda facts: first(facts, "expr_str").update(expr_str=program))


def guard_is_python(parts, trap):
    return edited_json(parts, MODEL, lambda facts: facts.update(guards_code=[f"__import__('os').mkdir({str(trap)!r})"]))


def operator_is_any_function(parts, trap):
    return edited_json(parts, MODEL, lambda facts: first(facts, "target").update(target="torch.os.mkdir"))


def operator_opens_a_file(parts, trap):
    return edited_json(parts, MODEL, lambda facts: first(facts, "target").update(target="torch.ops.aten.from_file.default"))


def input_names_a_module(parts, trap):
    spec = '[1, {"type": "collections.defaultdict", "context": "{}", "children_spec": []}]'
    return edited_json(parts, MODEL, lambda facts: first(facts, "in_spec").update(in_spec=spec))


ATTACKS = [
    example_is_an_object, weight_is_an_object, older_weights, older_format, constant_is_an_object, compiled_code, size_is_python,
    guard_is_python, operator_is_any_function, operator_opens_a_file, input_names_a_module,
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_program_that_would_run_code(exported, tmp_path, attack):
    trap, path = tmp_path / "trap", tmp_path / "m.pt2"
    unsealed = exported[".pt2"]
    parts = members(unsealed)
    screen_program(archive_of(parts), "m")  # packed like that, and unchanged, it is taken
    path.write_bytes(seal(archive_of(attack(parts, trap)), ".pt2"))
    with pytest.raises(LabError, match="tensors and operations on them"):
        load_exported(path)
    assert not trap.exists()


class Saves(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        torch.save(x, "written-by-a-model")
        return x.flatten(1)[:, :2]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_script_that_would_run_code(exported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabError, match="'save'"):
        load_exported(script(Saves(), tmp_path / "m.pt"))
    # PyTorch's reader of these files does not know Python's objects.
    parts, trap = members(exported[".pt"]), tmp_path / "trap"
    for name in ("archive/data.pkl", "archive/constants.pkl"):
        (tmp_path / "m.pt").write_bytes(seal(archive_of(parts | {name: members(pickled(trap))["archive/data.pkl"]}), ".pt"))
        with pytest.raises(LabError, match="labkit export"):
            load_exported(tmp_path / "m.pt")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.pt"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damage_anywhere_in_a_file_is_noticed(exported, tmp_path, suffix):
    path, whole, chance = tmp_path / f"m{suffix}", exported[suffix], random.Random(0)
    places = [0, 1, len(whole) - 1, len(whole) - 64, len(whole) - 65, *(chance.randrange(len(whole)) for _ in range(60))]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(LabError, match="Export the model again"):
            load_exported(path)
    for damaged in (whole[:-1], whole + b"x", whole[1:], whole + whole, whole[: len(whole) // 2], b"", b"x" * 200):
        path.write_bytes(damaged)
        with pytest.raises(LabError, match="Export the model again"):
            load_exported(path)
    check_seal(whole, suffix, "m")


def test_the_seal_is_over_every_byte():
    for suffix, data in ((".onnx", b"any bytes"), (".pt", b"PK any bytes\0\0")):
        sealed = seal(data, suffix)
        check_seal(sealed, suffix, "m")
        for place in range(len(sealed)):
            with pytest.raises(LabError):
                check_seal(sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :], suffix, "m")
    with pytest.raises(LabError, match="comment"):
        seal(b"PK", ".pt")


def test_the_digest_is_the_comment_of_an_archive(exported):
    with zipfile.ZipFile(io.BytesIO(exported[".pt2"])) as archive:
        assert archive.testzip() is None and archive.comment.startswith(b"labkit.sha256 ")
    assert struct.unpack("<H", exported[".pt2"][-80:-78]) == (78,)
