"""The command line on photographs: one fold, all folds with the published row beside them, names of presets."""

import pytest

from labkit.training import Recording
from tests.command import program
from tests.datasets.pictures import make_cub
from tests.photographs import TINY

SET = [f"--set={name}={value}" for name, value in TINY.items()]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path, own_cache):
    """Run the program in a folder where there are a few birds; gives (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))
    make_cub(tmp_path / "data", ids=(1, 20, 26, 50, 51, 60, 80, 90, 101, 150), each=4)
    return program(monkeypatch, capsys)


@pytest.mark.filterwarnings("ignore::labkit.datasets.DataWarning")
def test_all_folds_and_the_published_row(run, tmp_path):
    code, out, _ = run("train", "cub-c2", "--fold", "all", *SET)
    folder = tmp_path / "runs" / "cub-c2-foldall-seed0"
    assert code == 0 and sorted(p.name for p in folder.iterdir()) == [f"fold-{i}" for i in range(4)]
    validated = [set(Recording.load(folder / f"fold-{i}").class_names[6:8]) for i in range(4)]
    assert validated == [{"Bird 1", "Bird 20"}, {"Bird 26", "Bird 50"}, {"Bird 51", "Bird 60"}, {"Bird 80", "Bird 90"}]
    rows = {line[:26].strip(): line[26:].split() for line in out.splitlines()}
    assert rows["published, concatenated"][:2] == ["67.49", "26.47"] and rows["published, separated"][:2] == ["59.73", "21.01"]
    mean = sum(float(rows[f"fold {i}"][1]) for i in range(4)) / 4
    assert float(rows["separated (mean of folds)"][1]) == pytest.approx(mean, abs=0.02)
    again = run("train", "cub-c2", "--fold", "all", "--resume", *SET)
    assert again[0] == 0 and again[1].splitlines()[-9:] == out.splitlines()[-9:], "folds that are done are only judged again"


@pytest.mark.filterwarnings("ignore::labkit.datasets.DataWarning")
def test_one_fold_by_number(run, tmp_path):
    code, out, _ = run("train", "cub-c2", "--fold", "2", *SET)
    assert code == 0 and "\nPublished, C2: " in out and "MLRC protocol" in out
    recording = Recording.load(tmp_path / "runs" / "cub-c2-fold2-seed0")
    assert recording.experiment["photos"]["fold"] == 2 and recording.class_names[6:8] == ["Bird 51", "Bird 60"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("train", "cub-c2", "--fold", "4"), "photos.fold"), (("train", "cub-c2", "--fold", "x"), "photos.fold"),
     (("train", "poc-ccp", "--fold", "all"), "--fold"), (("train", "conventional-bn-cub-c2", "--fold", "all"), "--fold"),
     (("train", "cars-c2"), "cars_train.tgz"), (("train", "cub-c3"), "Did you mean 'cub-c2'")],
)  # fmt: skip
def test_what_is_refused_is_told_in_one_line(run, arguments, words):
    code, out, err = run(*arguments)
    assert code == 2 and out == "" and err.startswith("labkit: ") and err.count("\n") == 1 and words in err


def test_presets_are_listed(run):
    code, out, _ = run("presets", "cub", "ccp-l")
    lines = out.splitlines()
    names = [line for line in lines if not line.startswith("# ")]
    assert code == 0 and "cub-c2-ccp-l" in names and all("cub" in name and "ccp-l" in name for name in names)
    assert lines[0].startswith("# CUB-200-2011, MLRC protocol") and lines[1] == "cub-c1-ccp-l"
    conventional = lines[lines.index("conventional-bn-cub-c1-ccp-l") - 1]
    assert conventional.startswith("# CUB-200-2011, conventional protocol: BN-Inception")
    assert len(lines) - len(names) == 4, "MLRC, two networks of the conventional protocol, two cores"
    everything = run("presets")[1].splitlines()
    assert [line for line in everything if not line.startswith("# ")] != [] and "# Others" not in everything
    assert len(everything) == len(set(everything)) and "poc-ccp" in everything
    assert run("presets", "nothing-like-it")[1] == ""


def test_the_help_says_how_a_run_is_told_fold_folder_and_device(run):
    out = run("--help")[1]
    assert all(word in out for word in ("presets", "--fold", "--out", "--device"))


def test_data_list_says_what_part_is_here(run, tmp_path):
    out = run("data", "list")[1]
    assert f"Cache of decoded pictures and features: {tmp_path / 'cache'}\n" in out
    line = next(line for line in out.splitlines() if line.strip().startswith("cub "))
    assert "non-commercial" in line and "a part is here: 32 of 5,864 train pictures" in line
    assert "https://cvgl.stanford.edu/projects/lifted_struct/" in out
