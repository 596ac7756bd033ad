#!/usr/bin/env python3
"""Makes the files of this folder with NumPy, Pillow and Hugging Face's tokenizers, against which the readers are tested.

pip install numpy pillow tokenizers; then run it in this folder.
"""

import numpy
from PIL import Image

counting = numpy.arange(6).reshape(2, 3)
numpy.save("float32.npy", counting.astype("<f4"))
numpy.save("fortran_big_endian_int64.npy", numpy.asfortranarray(counting.astype(">i8")))
arrays = {code: counting.astype(code) for code in ("f4", "f8", "i4", "i8", "u1", "b1")}
arrays["scalar"] = numpy.float32(2.5)
numpy.savez("stored.npz", **arrays)
numpy.savez_compressed("packed.npz", **arrays)

# An image of 5 rows of 7 pixels in every form, and what Pillow reads from it, as [3, height, width].
rows, columns = numpy.mgrid[0:5, 0:7]
colour = numpy.stack([rows * 50, columns * 40, 255 - rows * 30], axis=-1).astype("u1")
image = Image.fromarray(colour)
forms = {
    "rgb.png": image,
    "grey.png": image.convert("L"),
    "palette.png": image.quantize(16),
    "alpha.png": Image.fromarray(numpy.dstack([colour, (columns * 30).astype("u1")])),
    "rgb.jpg": image,
    "grey.jpg": image.convert("L"),
    "progressive.jpg": image,
}
pixels = {}
for name, form in forms.items():
    form.save(name, **({"quality": 95, "subsampling": 0, "progressive": "prog" in name} if "jpg" in name else {}))
    pixels[name] = numpy.asarray(Image.open(name).convert("RGB")).transpose(2, 0, 1)
numpy.savez_compressed("pixels.npz", **pixels)

# Resized planes, from float32 [5, 7].
plane = Image.fromarray((rows * rows * 7 + columns * 3 + rows * columns).astype("f4"), mode="F")
sizes = [(5, 7), (10, 14), (3, 4), (1, 1), (2, 20), (9, 2)]
resized = {f"{h}x{w}": numpy.asarray(plane.resize((w, h), Image.BILINEAR)) for h, w in sizes}
numpy.savez_compressed("resized.npz", plane=numpy.asarray(plane), **resized)
