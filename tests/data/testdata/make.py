#!/usr/bin/env python3
"""Makes the files of this folder with NumPy, Pillow and Hugging Face's tokenizers, against which the readers are tested.

pip install numpy pillow tokenizers; then run it in this folder.
"""

import json

import numpy
from PIL import Image
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

counting = numpy.arange(6).reshape(2, 3)
numpy.save("float32.npy", counting.astype("<f4"))
numpy.save("fortran_big_endian_int64.npy", numpy.asfortranarray(counting.astype(">i8")))
arrays = {code: counting.astype(code) for code in ("f2", "f4", "f8", "i4", "i8", "u1", "b1")}
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

# Tokenizers of both styles, trained on a little text, and what the library makes of some others.
corpus = [
    "It's the lower price of 2026 that we'll see, isn't it? They've lowered 1234 prices by 5%.",
    "the quick brown fox jumps over the lazy dog and the dog sleeps through the winter",
    "\tfor (int i = 0; i < 10; ++i) {\n\t\tsum += values[i];\n\t}\n\n\n",
    "Größe, naïve café, Привет мир, 你好世界, こんにちは 🙂🙂",
] * 3
texts = corpus[:4] + [
    "", " ", "   ", "a  b   c ", "\n\n x\r\n", "Hello<|end|>world <|end|><|begin|>", "<|end", "12345 n\u00bd \u0661\u0662",
    "I'LL they'RE", "  leading", "trailing  ", "e\u0301 \u00a0\u3000x", "\u2028 \U0001f469\u200d\U0001f680",
]
llama = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
byte_level = pre_tokenizers.ByteLevel
styles = {
    "gpt2": byte_level(add_prefix_space=False),
    "spaced": byte_level(add_prefix_space=True),
    "llama": pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(llama), "isolated"), byte_level(add_prefix_space=False, use_regex=False)]
    ),
}
for name, pre_tokenizer in styles.items():
    tokenizer = Tokenizer(models.BPE(ignore_merges=name == "llama"))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=360,
        special_tokens=["<|end|>", "<|begin|>"],
        initial_alphabet=byte_level.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.save(f"tokenizer_{name}.json", pretty=False)
    with open(f"encoded_{name}.json", "w") as file:
        json.dump([[text, tokenizer.encode(text).ids] for text in texts], file)
    if name == "gpt2":
        tokenizer.model.save(".")
