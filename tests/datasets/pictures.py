"""Small image data sets laid out as the official archives unpack, with generated pictures."""

import numpy as np
from PIL import Image


def picture(path, seed=0, size=(40, 30), mode="RGB", **options):
    """Write a picture of smooth noise: (width, height)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rough = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(rough).resize(size, Image.Resampling.BILINEAR).convert(mode).save(path, **options)
    return path


def make_cub(root, ids=(1, 2, 5, 101, 150), each=4, size=(40, 30)):
    """CUB_200_2011 with some classes and `each` pictures a class."""
    folder, names = root / "CUB_200_2011", []
    for i in ids:
        for number in range(each):
            name = f"{i:03}.Bird_{i}/Bird_{i}_{number:04}.jpg"
            picture(folder / "images" / name, seed=1000 * i + number, size=size)
            names.append(name)
    (folder / "images.txt").write_text("".join(f"{n} {name}\n" for n, name in enumerate(names, 1)))
    return folder


def make_cars(root, single_archive, ids=(1, 98, 99, 196)):
    """Cars196 in either of its two layouts, two pictures a class."""
    from scipy.io import savemat

    folder = root / "cars196"
    field = "relative_im_path" if single_archive else "fname"

    def annotations(names, classes):
        rows = np.empty((1, len(names)), dtype=[(field, "O"), ("bbox_x1", "O"), ("class", "O")])
        for column, (name, number) in enumerate(zip(names, classes, strict=True)):
            rows[0, column] = (name, 3, number)
        return rows

    class_names = np.array([[f"Model {i}" for i in range(1, 197)]], dtype=object)
    if single_archive:
        names = [f"car_ims/{n:06}.jpg" for n in range(2 * len(ids))]
        for n, name in enumerate(names):
            picture(folder / name, seed=n)
        classes = [i for i in ids for _ in range(2)]
        savemat(folder / "cars_annos.mat", {"annotations": annotations(names, classes), "class_names": class_names})
        return folder
    names = [f"{n:05}.jpg" for n in range(1, len(ids) + 1)]
    for n, name in enumerate(names):
        picture(folder / "cars_train" / name, seed=n)
        picture(folder / "cars_test" / name, seed=100 + n)
    (folder / "devkit").mkdir()
    savemat(folder / "devkit/cars_train_annos.mat", {"annotations": annotations(names, ids)})
    savemat(folder / "devkit/cars_meta.mat", {"class_names": class_names})
    savemat(folder / "cars_test_annos_withlabels.mat", {"annotations": annotations(names, ids)})
    return folder


def make_sop(root):
    folder = root / "Stanford_Online_Products"
    for part, first in (("train", 1), ("test", 11_319)):
        lines = ["image_id class_id super_class_id path"]
        for number in range(6):
            name = f"chair_final/{first}_{number}.JPG"
            picture(folder / name, seed=first + number)
            lines.append(f"{number} {first + number // 2} 4 {name}")
        (folder / f"Ebay_{part}.txt").write_text("\n".join(lines) + "\n")
    return folder


def make_in_shop(root, inner="Img/img"):
    folder = root / "In-shop Clothes Retrieval Benchmark"
    rows = []
    items = {
        2: ["train"] * 3,
        3: ["train"] * 3,
        7: ["query", "query", "gallery"],
        9: ["query", "query", "gallery", "gallery"],
    }
    for item, parts in items.items():
        for number, part in enumerate(parts):
            name = f"WOMEN/Dresses/id_{item:08}/{number:02}_1_front.jpg"
            picture(folder / inner / name, seed=item * 10 + number)
            rows.append(f"img/{name}    id_{item:08} {part}")
    (folder / "Eval").mkdir()
    (folder / "Eval/list_eval_partition.txt").write_text("\n".join([str(len(rows)), "image_name item_id status", *rows]))
    return folder


def make_folder(root, classes=("ant", "bee", "cat", "dog"), each=3, size=(40, 30)):
    """One folder a class."""
    for number, name in enumerate(classes):
        for i in range(each):
            picture(root / name / f"{i}.png", seed=100 * number + i, size=size)
    return root
