#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes logits.txt and tokens.txt of this folder with llama.cpp. Tests only read those files; this
script is kept so that they can be made again. README.md says with which versions they were made.

    python3 -m venv v && v/bin/pip install llama-cpp-python==0.3.36 gguf numpy
    v/bin/python reference.py SmolLM2-135M-Instruct.Q4_1.gguf scratch-folder

The model is first rewritten with every tensor dequantised to F32, so that llama.cpp rounds no
activation; its KV cache is F32 too.
"""
import os
import sys

import gguf
import llama_cpp
import numpy as np

STEPS = 64
TOP = 8
FIXED = [17 + 3001 * i for i in range(16)]

LONG = (
    "Matrix multiplication is the work horse of modern language models. Nearly all of the time that a "
    "model needs to write one word is spent in reading the weights of its linear layers from memory, "
    "and so the number of bytes that a weight takes decides how fast the model can speak. In 2019 most "
    "weights took 16 bits; in 2024 4 bits were common. The activations, which change with every word, "
    "need more care: a few of them are a hundred times larger than the others, and rounding these "
    "harms the text. A library for such products therefore keeps the activations in 16 bits, turns "
    "4-bit codes into numbers on the fly, and multiplies.\n\nIn short, the main point of the text above is"
)
PROMPTS = [
    ("plain", "The capital of France is"),
    (
        "chat",
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nWhat is gravity? Answer briefly.<|im_end|>\n"
        "<|im_start|>assistant\n",
    ),
    ("code", "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n"),
    ("story", "Once upon a time, in 1837, a café owner named Zoë O'Neill didn't know that"),
    ("long", LONG),
]

TRICKY = [
    "", " ", "  ", "\n", "\n\n", "\t\t", " \n ", "   \n\n   x", "a", " a", "  a", "a  b", "a   b   c  ",
    "Hello, world!", "don't can't we'll they've I'm you're he'd it's", "DON'T CAN'T WE'LL", "'s't're",
    "'", "''", " 's", "x 'tis", "1", "12", " 123", "3.14159", "1,000,000", "a1b2c3", "2024-05-17T10:00:00Z",
    "0x1F", "½ ² Ⅷ ٣٤ 五", "naïve café Zoë", "ÀÉÎÕÜ", "Привет, мир!", "Ελληνικά", "你好，世界", "こんにちは",
    "한국어 텍스트", "שלום", "مرحبا", "हिन्दी", "e\u0301 combining", "👍", "👩‍👩‍👧‍👦 family", "🇫🇷🏳️‍🌈",
    "a\u00a0b", "a\u3000b", "\u2003em", "x\u200by", "tab\tand\r\nCRLF", "if (x == 0) { return -1; }",
    "    for i in range(10):\n        print(i)\n", "https://example.com/a?b=c&d=%20", "foo_bar-baz.qux",
    "!!!???...", "$$$ ### @@@", "—–…“quoted”", "a" * 70, "ab " * 20, "=" * 64, "\x01\x02\x7f", "\ufeffBOM",
    "aaaa bbbb 11112222", "<|im_start|>user\nhi<|im_end|>\n", "x<|endoftext|>y", "<|im_start", "<file_sep><repo_name>",
    "\U0001d54f math 𝟙𝟚", "ﬁ ligature", "Ⓐⓑ ①②", "ʼn ǆ ª º", "  leading and trailing  ", "a\n\n\n b\n\n\n",
    "1 2  3   4", "x1 y22  333", " \u00a0 x", "\u0085 next line", "\u1680ogham \u2028ls\u2029ps",
]


def quote(text):
    """C-like: printable ASCII as it is, all other bytes as \\xNN."""
    out = ""
    for b in text.encode():
        c = chr(b)
        out += "\\" + c if c in '"\\' else c if 32 <= b < 127 else f"\\x{b:02x}"
    return '"' + out + '"'


def write_f32(source, path):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        data = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, data.reshape(tensor.shape[::-1]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def pairs(logits, ids):
    return " ".join(f"{i}:{logits[i]:.6f}" for i in ids)


def write_logits(model, out):
    vocab = model.n_vocab()
    for name, text in PROMPTS:
        ids = model.tokenize(text.encode(), add_bos=False, special=True)
        out.write(f"prompt {name}\ntext {quote(text)}\nids {' '.join(map(str, ids))}\n")
        model.reset()
        model.eval(ids)
        for _ in range(STEPS):
            row = np.array(llama_cpp.llama_get_logits_ith(model.ctx, -1)[:vocab], dtype=np.float64)
            top = np.argsort(-row, kind="stable")[:TOP]
            out.write(f"step {top[0]} mean {row.mean():.6f} top {pairs(row, top)} fixed {pairs(row, FIXED)}\n")
            model.eval([int(top[0])])


def main():
    source, scratch = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    wide = os.path.join(scratch, "model-f32.gguf")
    if not os.path.exists(wide):
        write_f32(source, wide)
    model = llama_cpp.Llama(
        wide, n_ctx=512, n_batch=512, n_ubatch=512, type_k=0, type_v=0, flash_attn=False, n_threads=2, verbose=False
    )
    with open(os.path.join(here, "tokens.txt"), "w") as out:
        out.write("# SPDX-License-Identifier: Apache-2.0\n# Made by reference.py: special tokens parsed or not, text, ids.\n")
        for text in TRICKY:
            for special in (0, 1):
                ids = model.tokenize(text.encode(), add_bos=False, special=bool(special))
                if special == 0 or "<" in text:
                    out.write(f"{'special' if special else 'plain'} {quote(text)} {' '.join(map(str, ids))}\n".replace(" \n", "\n"))
    with open(os.path.join(here, "logits.txt"), "w") as out:
        out.write("# SPDX-License-Identifier: Apache-2.0\n# Made by reference.py; README.md explains the lines.\n")
        write_logits(model, out)


main()
