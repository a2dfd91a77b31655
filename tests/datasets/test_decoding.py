"""Picture files of every kind, good and bad."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from labkit.datasets.decoding import BadPicture, decode


def encoded(image, kind="PNG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def smooth(width, height):
    rough = np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(rough).resize((width, height), Image.Resampling.BILINEAR)


@settings(max_examples=30, deadline=None)
@given(width=st.integers(8, 120), height=st.integers(8, 120), side=st.integers(4, 60))
def test_the_shorter_side_has_the_asked_length_and_the_shape_stays(width, height, side):
    pixels = decode(encoded(smooth(width, height)), side).pixels
    assert min(pixels.shape[:2]) == side and pixels.dtype == np.uint8 and pixels.shape[2] == 3
    assert abs(max(pixels.shape[:2]) - side * max(width, height) / min(width, height)) < 1
    assert decode(encoded(smooth(width, height)), side, square=True).pixels.shape == (side, side, 3)


def test_a_picture_of_the_right_size_is_not_touched():
    image = smooth(50, 40)
    np.testing.assert_array_equal(decode(encoded(image), 40).pixels, np.asarray(image))


@pytest.mark.parametrize(("mode", "kind", "file"), [
    ("L", "grey", "PNG"), ("1", "grey", "PNG"), ("LA", "grey", "PNG"), ("CMYK", "CMYK", "JPEG"), ("L", "grey", "JPEG"),
    ("P", "", "PNG"), ("RGBA", "", "PNG"), ("RGB", "", "WEBP"), ("RGB", "", "BMP"), ("RGB", "", "TIFF"),
])  # fmt: skip
def test_other_kinds_become_rgb_and_are_told(mode, kind, file):
    image = smooth(30, 30)
    decoded = decode(encoded(image.convert(mode), file), 30)
    assert decoded.kind == kind and decoded.pixels.shape == (30, 30, 3)
    if mode in ("CMYK", "RGBA", "RGB"):
        assert np.abs(decoded.pixels.astype(int) - np.asarray(image)).mean() < 12


def test_sixteen_bits_are_scaled_not_cut():
    grey = np.linspace(0, 65535, 32 * 32).reshape(32, 32).astype(np.uint16)
    pixels = decode(encoded(Image.fromarray(grey)), 32).pixels
    np.testing.assert_allclose(pixels[..., 0], grey / 257, atol=1)


@pytest.mark.parametrize(("dtype", "white"), [("f4", 1), ("f4", 255), ("f4", 65535), ("i4", 255), ("i4", 65535)])
def test_floats_and_32_bits_are_scaled_by_what_is_white(dtype, white):
    grey = np.linspace(0, white, 32 * 32).reshape(32, 32).astype(dtype)
    pixels = decode(encoded(Image.fromarray(grey), "TIFF"), 32).pixels
    np.testing.assert_allclose(pixels[..., 0], grey * (255 / white), atol=1)


@pytest.mark.parametrize(("value", "words"), [
    (np.nan, "NaN or infinite"), (np.inf, "NaN or infinite"), (-np.inf, "NaN or infinite"), (-1, "numbers from -1 to 0.5"),
    (65536, "numbers from 0.5 to 65536"), (2**30, "to 1.07374e[+]09"),
])  # fmt: skip
def test_numbers_that_no_picture_has(value, words):
    grey = np.full((32, 32), 0.5, dtype=np.float32)
    grey[3, 4] = value
    with pytest.raises(BadPicture, match=words):
        decode(encoded(Image.fromarray(grey), "TIFF"), 32)


def test_what_is_transparent_lies_on_white():
    layer = Image.new("RGBA", (20, 20), (0, 0, 0, 0))
    layer.paste((10, 20, 30, 255), (0, 0, 20, 10))
    pixels = decode(encoded(layer), 20).pixels
    assert pixels[0, 0].tolist() == [10, 20, 30] and pixels[19, 0].tolist() == [255, 255, 255]
    palette = Image.new("P", (20, 20), 0)
    palette.putpalette([10, 20, 30] + [0] * 765)
    assert decode(encoded(palette, transparency=0), 20).pixels[0, 0].tolist() == [255, 255, 255]


def test_the_camera_s_note_on_which_side_is_up_is_obeyed():
    image = smooth(60, 30)
    note = Image.Exif()
    note[0x0112] = 6  # to be turned by 90 degrees clockwise
    pixels = decode(encoded(image, exif=note.tobytes()), 30).pixels
    np.testing.assert_array_equal(pixels, np.rot90(np.asarray(image), -1))


def test_a_large_jpeg_is_as_small_as_any():
    image = smooth(4000, 3000)
    pixels = decode(encoded(image, "JPEG", quality=95), 30).pixels
    wanted = np.asarray(image.resize((40, 30), Image.Resampling.BILINEAR)).astype(int)
    assert pixels.shape == (30, 40, 3) and np.abs(pixels - wanted).mean() < 2


GOOD = encoded(smooth(300, 200), "JPEG")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cannot identify"),
        (b"text", "cannot identify"),
        (GOOD[: len(GOOD) // 2], "truncated"),
        (encoded(smooth(300, 200))[:-2000], "truncated|broken"),
        (encoded(Image.new("RGB", (1, 1))), "1 x 1 pixels, a side below 8"),
        (encoded(Image.new("RGB", (500, 7))), "500 x 7"),
        (encoded(Image.new("RGB", (400, 10))), "16 times the other"),
        (encoded(Image.new("1", (9000, 9000))), "9,000 x 9,000, more than 80 million"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_bad_files_say_what_is_wrong(data, words):
    with pytest.raises(BadPicture, match=words):
        decode(data, 32)


def test_a_bomb_is_not_unpacked():
    bomb = encoded(Image.new("1", (20_000, 20_000)))
    with pytest.raises(BadPicture, match="80 million"):
        decode(bomb, 32)


@settings(max_examples=60, deadline=None)
@given(place=st.integers(2, len(GOOD) - 1), junk=st.binary(min_size=1, max_size=40))
def test_any_damage_gives_a_picture_or_a_word(place, junk):
    try:
        assert decode(GOOD[:place] + junk + GOOD[place + len(junk) :], 16).pixels.shape[2] == 3
    except BadPicture as bad:
        assert str(bad)


def test_what_is_said_of_a_file_that_is_no_picture_is_the_same_every_time():
    with pytest.raises(BadPicture) as caught:
        decode(b"text", side=16)
    assert str(caught.value) == "cannot identify image file"
