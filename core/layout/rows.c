/* SPDX-License-Identifier: Apache-2.0
 *
 * The layouts we know by name: data only. A row is a name with a summary; for each element width it
 * exists for there is one line of layout text. To add a layout add lines here, its formula to
 * tests/unit/layout_rows.c and a picture to docs/layouts.md; nothing else.
 */
#include "base/text.h"
#include "layout/text.h"

#include <string.h>

typedef struct row {
    const char *name;
    const char *summary;
} row;

typedef struct row_text {
    const char *name;
    const char *text;
} row_text;

/* clang-format off */
static const row rows[] = {
    {"plain",               "[n, k], least significant bits first, each row padded to whole bytes"},
    {"bytes",               "[n, k], one code a byte"},
    {"plain-kn",            "[k, n] arrays of whole elements; scales of GPTQ, AWQ, gemlite"},
    {"gptq",                "GPTQ qweight: int32 [k*B/32, n]"},
    {"gptq-zeros",          "GPTQ qzeros: int32 [groups, n*B/32]"},
    {"awq",                 "AWQ qweight and qzeros: int32 [k, n/8], nibbles 0,2,4,6,1,3,5,7"},
    {"marlin",              "Marlin weights: int32 [k/16, 2n]"},
    {"marlin-scales",       "Marlin scales, grouped: [groups, n], permuted within 64"},
    {"marlin-scales-row",   "Marlin scales, one a row: [1, n], permuted within 32"},
    {"marlin-zeros",        "Marlin zero points: int32 [groups, n/8]"},
    {"bitblas",             "BitBLAS without interleaving: [n, k*B/8] bytes"},
    {"bitblas-f16",         "BitBLAS interleaved for f16 activations"},
    {"bitblas-i8",          "BitBLAS interleaved for i8 activations"},
    {"gemlite",             "gemlite: codes packed into 32 bits along k, stored [k*B/32, n]"},
    {"aiter16x16",          "AITER preshuffle (16,16): 16 rows x 16 bytes"},
    {"aiter-mx-scales",     "AITER MX scales: 32 rows x 8 scales"},
    {"mma16x64",            "mma.sync and register-A wgmma fragments: 16 rows x 64 k a warp"},
    {"mma64x128",           "CUDA backend: mma.sync fragments in blocks of 64 rows x 128 k"},
    {"mma64-scales",        "CUDA backend's scales and zeros: 64 rows side by side, n and n + 8"},
    {"mfma16x16x16",        "MFMA 16x16x16 f16 A fragments, 16 bytes a lane"},
    {"mfma32x32x8",         "MFMA 32x32x8 f16 A fragments, 16 bytes a lane"},
    {"dpas16",              "DPAS B operand, sub-group 16, 16 bytes a lane"},
    {"dpas8",               "DPAS B operand, sub-group 8, 16 bytes a lane"},
    {"cpu16",               "CPU backend: 16 rows side by side, 32 bits of each"},
    {"cpu16-scales",        "CPU backend's scales and zeros: 16 rows side by side"},
    {"gguf-q4_0",           "codes in GGUF Q4_0 blocks"},
    {"gguf-q4_0-scales",    "scales in GGUF Q4_0 blocks"},
    {"gguf-q4_1",           "codes in GGUF Q4_1 blocks"},
    {"gguf-q4_1-scales",    "scales in GGUF Q4_1 blocks"},
    {"gguf-q4_1-mins",      "minima in GGUF Q4_1 blocks"},
    {"gguf-q8_0",           "codes in GGUF Q8_0 blocks"},
    {"gguf-q8_0-scales",    "scales in GGUF Q8_0 blocks"},
    {"nvfp4-scales-128x4",  "scale factors of FP4 kernels: 128 rows x 4 scales"},
    {"nvfp4-sm12x",         "FP4 codes for SM12x: int32 [k/16, 2n]"},
};

static const row_text texts[] = {
    {"plain", "bits=1 tile=n1,k8 addr=k0,k1,k2 order=nk"},
    {"plain", "bits=2 tile=n1,k4 addr=k0,k1 order=nk"},
    {"plain", "bits=3 tile=n1,k8 addr=k0,k1,k2 order=nk edge=cut"},
    {"plain", "bits=4 tile=n1,k2 addr=k0 order=nk"},
    {"plain", "bits=5 tile=n1,k8 addr=k0,k1,k2 order=nk edge=cut"},
    {"plain", "bits=6 tile=n1,k4 addr=k0,k1 order=nk edge=cut"},
    {"plain", "bits=7 tile=n1,k8 addr=k0,k1,k2 order=nk edge=cut"},
    {"plain", "bits=8 tile=n1,k1 order=nk"},
    {"plain", "bits=16 tile=n1,k1 order=nk"},
    {"plain", "bits=32 tile=n1,k1 order=nk"},

    {"bytes", "bits=1 tile=n1,k1 order=nk cell=8"},
    {"bytes", "bits=2 tile=n1,k1 order=nk cell=8"},
    {"bytes", "bits=3 tile=n1,k1 order=nk cell=8"},
    {"bytes", "bits=4 tile=n1,k1 order=nk cell=8"},
    {"bytes", "bits=5 tile=n1,k1 order=nk cell=8"},
    {"bytes", "bits=6 tile=n1,k1 order=nk cell=8"},
    {"bytes", "bits=7 tile=n1,k1 order=nk cell=8"},
    {"bytes", "bits=8 tile=n1,k1 order=nk"},

    {"plain-kn", "bits=8 tile=n1,k1 order=kn"},
    {"plain-kn", "bits=16 tile=n1,k1 order=kn"},
    {"plain-kn", "bits=32 tile=n1,k1 order=kn"},

    {"gptq", "bits=2 tile=n1,k16 addr=k0,k1,k2,k3 order=kn"},
    /* 32 codes of a column fill three words, one in each of three rows of the array. */
    {"gptq", "bits=3 tile=n1,k32 addr=k0,k1,k2,k3,k4 order=kn weave=words"},
    {"gptq", "bits=4 tile=n1,k8 addr=k0,k1,k2 order=kn"},
    {"gptq", "bits=8 tile=n1,k4 addr=k0,k1 order=kn"},

    {"gptq-zeros", "bits=2 tile=n16,k1 addr=n0,n1,n2,n3 order=kn"},
    {"gptq-zeros", "bits=3 tile=n32,k1 addr=n0,n1,n2,n3,n4 order=kn"},
    {"gptq-zeros", "bits=4 tile=n8,k1 addr=n0,n1,n2 order=kn"},
    {"gptq-zeros", "bits=8 tile=n4,k1 addr=n0,n1 order=kn"},

    {"awq", "bits=4 tile=n8,k1 addr=n1,n2,n0 order=kn"},

    {"marlin", "bits=4 tile=n64,k16 addr=k3,n3,k0,n4,n5,k1,k2,n0,n1,n2 order=kn"},
    {"marlin-scales", "bits=16 tile=n64,k1 addr=n3,n4,n5,n0,n1,n2 order=kn"},
    {"marlin-scales-row", "bits=16 tile=n32,k1 addr=n0,n3,n4,n1,n2 order=kn"},
    {"marlin-zeros", "bits=4 tile=n64,k1 addr=n4,n5,n3,n0,n1,n2 order=kn"},

    {"bitblas", "bits=1 tile=n1,k8 addr=k0,k1,k2 order=nk"},
    {"bitblas", "bits=2 tile=n1,k4 addr=k0,k1 order=nk"},
    {"bitblas", "bits=4 tile=n1,k2 addr=k0 order=nk"},
    {"bitblas", "bits=8 tile=n1,k1 order=nk"},
    {"bitblas-f16", "bits=2 tile=n1,k16 addr=k1,k2,k0,k3 order=nk"}, /* bytes 1, 2 swapped */
    {"bitblas-f16", "bits=4 tile=n1,k8 addr=k1,k2,k0 order=nk"},
    {"bitblas-i8", "bits=1 tile=n1,k32 addr=k2,k3,k1,k0,k4 order=nk"}, /* nibbles 1-4, 3-6 swapped */
    {"bitblas-i8", "bits=2 tile=n1,k16 addr=k2,k3,k0,k1 order=nk"},
    {"bitblas-i8", "bits=4 tile=n1,k8 addr=k2,k0,k1 order=nk"},

    {"gemlite", "bits=1 tile=n1,k32 addr=k0,k1,k2,k3,k4 order=kn"},
    {"gemlite", "bits=2 tile=n1,k16 addr=k0,k1,k2,k3 order=kn"},
    {"gemlite", "bits=4 tile=n1,k8 addr=k0,k1,k2 order=kn"},
    {"gemlite", "bits=8 tile=n1,k4 addr=k0,k1 order=kn"},

    {"aiter16x16", "bits=4 tile=n16,k32 addr=k2,k0,k1,k3,k4,n0,n1,n2,n3 order=nk"},
    {"aiter16x16", "bits=8 tile=n16,k16 addr=k0,k1,k2,k3,n0,n1,n2,n3 order=nk"},
    {"aiter16x16", "bits=16 tile=n16,k8 addr=k0,k1,k2,n0,n1,n2,n3 order=nk"},
    {"aiter-mx-scales", "bits=8 tile=n32,k8 addr=n4,k2,n0,n1,n2,n3,k0,k1 order=nk"},

    /* Fragment orders of the matrix units. In a 32-bit word of codes the two that form a register
     * of f16 pairs stand 16 bits apart: nibbles i and i + 4, bytes i and i + 2. */
    {"mma16x64", "bits=4 tile=n16,k64 addr=n3,k3,k0,k4,k5,k1,k2,n0,n1,n2 order=nk"},
    {"mma16x64", "bits=8 tile=n16,k64 addr=n3,k0,k3,k4,k1,k2,n0,n1,n2,k5 order=nk"},
    /* Blocks of 4 units of 16 rows. A lane's 16 bytes of a unit are k16 steps 2i, 2i + 1 of 2-bit
     * codes, 4i.. of 4-bit ones, two steps of 8-bit ones; 1-bit codes take 8 bytes a lane. */
    {"mma64x128", "bits=1 tile=n64,k128 addr=n3,k3,k4,k5,k0,k6,k1,k2,n0,n1,n2,n4,n5 order=nk"},
    {"mma64x128", "bits=2 tile=n64,k128 addr=n3,k3,k4,k0,k5,k6,k1,k2,n0,n1,n2,n4,n5 order=nk"},
    {"mma64x128", "bits=2 tile=n64,k128 addr=n3,k3,k4,k0,k5,k6,k1,k2,n0,n1,n2,n4,n5 order=nk | "
                  "bits=1 tile=n64,k128 addr=n3,k3,k4,k5,k0,k6,k1,k2,n0,n1,n2,n4,n5 order=nk "
                  "shift=2"},
    {"mma64x128", "bits=4 tile=n64,k128 addr=n3,k3,k0,k4,k5,k1,k2,n0,n1,n2,n4,n5,k6 order=nk"},
    {"mma64x128", "bits=4 tile=n64,k128 addr=n3,k3,k0,k4,k5,k1,k2,n0,n1,n2,n4,n5,k6 order=nk | "
                  "bits=1 tile=n64,k128 addr=n3,k3,k4,k5,k0,k6,k1,k2,n0,n1,n2,n4,n5 order=nk "
                  "shift=4"},
    {"mma64x128", "bits=4 tile=n64,k128 addr=n3,k3,k0,k4,k5,k1,k2,n0,n1,n2,n4,n5,k6 order=nk | "
                  "bits=2 tile=n64,k128 addr=n3,k3,k4,k0,k5,k6,k1,k2,n0,n1,n2,n4,n5 order=nk "
                  "shift=4"},
    {"mma64x128", "bits=4 tile=n64,k128 addr=n3,k3,k0,k4,k5,k1,k2,n0,n1,n2,n4,n5,k6 order=nk | "
                  "bits=2 tile=n64,k128 addr=n3,k3,k4,k0,k5,k6,k1,k2,n0,n1,n2,n4,n5 order=nk "
                  "shift=4 | "
                  "bits=1 tile=n64,k128 addr=n3,k3,k4,k5,k0,k6,k1,k2,n0,n1,n2,n4,n5 order=nk "
                  "shift=6"},
    {"mma64x128", "bits=8 tile=n64,k128 addr=n3,k0,k3,k4,k1,k2,n0,n1,n2,n4,n5,k5,k6 order=nk"},
    {"mma64-scales", "bits=1 cell=8 tile=n64,k1 addr=n3,n0,n1,n2,n4,n5 order=nk"},
    {"mma64-scales", "bits=2 cell=8 tile=n64,k1 addr=n3,n0,n1,n2,n4,n5 order=nk"},
    {"mma64-scales", "bits=3 cell=8 tile=n64,k1 addr=n3,n0,n1,n2,n4,n5 order=nk"},
    {"mma64-scales", "bits=4 cell=8 tile=n64,k1 addr=n3,n0,n1,n2,n4,n5 order=nk"},
    {"mma64-scales", "bits=5 cell=8 tile=n64,k1 addr=n3,n0,n1,n2,n4,n5 order=nk"},
    {"mma64-scales", "bits=6 cell=8 tile=n64,k1 addr=n3,n0,n1,n2,n4,n5 order=nk"},
    {"mma64-scales", "bits=7 cell=8 tile=n64,k1 addr=n3,n0,n1,n2,n4,n5 order=nk"},
    {"mma64-scales", "bits=8 tile=n64,k1 addr=n3,n0,n1,n2,n4,n5 order=nk"},
    {"mma64-scales", "bits=16 tile=n64,k1 addr=n3,n0,n1,n2,n4,n5 order=nk"},
    {"mma64-scales", "bits=32 tile=n64,k1 addr=n3,n0,n1,n2,n4,n5 order=nk"},

    {"mfma16x16x16", "bits=4 tile=n16,k128 addr=k1,k4,k0,k5,k6,n0,n1,n2,n3,k2,k3 order=nk"},
    {"mfma16x16x16", "bits=8 tile=n16,k64 addr=k1,k0,k4,k5,n0,n1,n2,n3,k2,k3 order=nk"},
    {"mfma16x16x16", "bits=16 tile=n16,k32 addr=k0,k1,k4,n0,n1,n2,n3,k2,k3 order=nk"},
    {"mfma32x32x8", "bits=4 tile=n32,k64 addr=k1,k3,k0,k4,k5,n0,n1,n2,n3,n4,k2 order=nk"},
    {"mfma32x32x8", "bits=8 tile=n32,k32 addr=k1,k0,k3,k4,n0,n1,n2,n3,n4,k2 order=nk"},
    {"mfma32x32x8", "bits=16 tile=n32,k16 addr=k0,k1,k3,n0,n1,n2,n3,n4,k2 order=nk"},
    {"dpas16", "bits=4 tile=n16,k32 addr=k1,k2,k0,k3,k4,n0,n1,n2,n3 order=nk"},
    {"dpas16", "bits=8 tile=n16,k32 addr=k0,k1,k2,k3,n0,n1,n2,n3,k4 order=nk"},
    {"dpas16", "bits=16 tile=n16,k16 addr=k0,k1,k2,n0,n1,n2,n3,k3 order=nk"},
    {"dpas8", "bits=4 tile=n8,k32 addr=k1,k2,k0,k3,k4,n0,n1,n2 order=nk"},
    {"dpas8", "bits=8 tile=n8,k32 addr=k0,k1,k2,k3,n0,n1,n2,k4 order=nk"},
    {"dpas8", "bits=16 tile=n8,k16 addr=k0,k1,k2,n0,n1,n2,k3 order=nk"},

    {"cpu16", "bits=1 tile=n16,k32 addr=k2,k3,k4,k0,k1,n0,n1,n2,n3 order=nk"},
    {"cpu16", "bits=2 tile=n16,k16 addr=k2,k3,k0,k1,n0,n1,n2,n3 order=nk"},
    {"cpu16", "bits=2 tile=n16,k16 addr=k2,k3,k0,k1,n0,n1,n2,n3 order=nk | "
              "bits=1 tile=n16,k32 addr=k2,k3,k4,k0,k1,n0,n1,n2,n3 order=nk shift=2"},
    {"cpu16", "bits=4 tile=n16,k8 addr=k2,k0,k1,n0,n1,n2,n3 order=nk"},
    {"cpu16", "bits=4 tile=n16,k8 addr=k2,k0,k1,n0,n1,n2,n3 order=nk | "
              "bits=1 tile=n16,k32 addr=k2,k3,k4,k0,k1,n0,n1,n2,n3 order=nk shift=4"},
    {"cpu16", "bits=4 tile=n16,k8 addr=k2,k0,k1,n0,n1,n2,n3 order=nk | "
              "bits=2 tile=n16,k16 addr=k2,k3,k0,k1,n0,n1,n2,n3 order=nk shift=4"},
    {"cpu16", "bits=4 tile=n16,k8 addr=k2,k0,k1,n0,n1,n2,n3 order=nk | "
              "bits=2 tile=n16,k16 addr=k2,k3,k0,k1,n0,n1,n2,n3 order=nk shift=4 | "
              "bits=1 tile=n16,k32 addr=k2,k3,k4,k0,k1,n0,n1,n2,n3 order=nk shift=6"},
    {"cpu16", "bits=8 tile=n16,k4 addr=k0,k1,n0,n1,n2,n3 order=nk"},
    {"cpu16-scales", "bits=1 cell=8 tile=n16,k1 addr=n0,n1,n2,n3 order=nk"},
    {"cpu16-scales", "bits=2 cell=8 tile=n16,k1 addr=n0,n1,n2,n3 order=nk"},
    {"cpu16-scales", "bits=3 cell=8 tile=n16,k1 addr=n0,n1,n2,n3 order=nk"},
    {"cpu16-scales", "bits=4 cell=8 tile=n16,k1 addr=n0,n1,n2,n3 order=nk"},
    {"cpu16-scales", "bits=5 cell=8 tile=n16,k1 addr=n0,n1,n2,n3 order=nk"},
    {"cpu16-scales", "bits=6 cell=8 tile=n16,k1 addr=n0,n1,n2,n3 order=nk"},
    {"cpu16-scales", "bits=7 cell=8 tile=n16,k1 addr=n0,n1,n2,n3 order=nk"},
    {"cpu16-scales", "bits=8 tile=n16,k1 addr=n0,n1,n2,n3 order=nk"},
    {"cpu16-scales", "bits=16 tile=n16,k1 addr=n0,n1,n2,n3 order=nk"},
    {"cpu16-scales", "bits=32 tile=n16,k1 addr=n0,n1,n2,n3 order=nk"},

    {"gguf-q4_0", "bits=4 tile=n1,k32 addr=k4,k0,k1,k2,k3 order=nk pitch=18 offset=2"},
    {"gguf-q4_0-scales", "bits=16 tile=n1,k1 order=nk pitch=18"},
    {"gguf-q4_1", "bits=4 tile=n1,k32 addr=k4,k0,k1,k2,k3 order=nk pitch=20 offset=4"},
    {"gguf-q4_1-scales", "bits=16 tile=n1,k1 order=nk pitch=20"},
    {"gguf-q4_1-mins", "bits=16 tile=n1,k1 order=nk pitch=20 offset=2"},
    {"gguf-q8_0", "bits=8 tile=n1,k32 addr=k0,k1,k2,k3,k4 order=nk pitch=34 offset=2"},
    {"gguf-q8_0-scales", "bits=16 tile=n1,k1 order=nk pitch=34"},

    {"nvfp4-scales-128x4", "bits=8 tile=n128,k4 addr=k0,k1,n5,n6,n0,n1,n2,n3,n4 order=nk"},
    {"nvfp4-sm12x", "bits=4 tile=n64,k16 addr=k0,k3,n4,n5,k1,k2,n0,n1,n2,n3 order=kn"},
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

nib_status nib_layout_row(uint32_t index, const char **name, const char **summary)
{
    if (index >= COUNT(rows))
        return nib_fail(NIB_MISSING, "there are %zu layout rows; index %u is past the last",
                        COUNT(rows), index);
    if (name)
        *name = rows[index].name;
    if (summary)
        *summary = rows[index].summary;
    return NIB_OK;
}

/* The row's text for these bits, or a failure that names the bits it has. */
static nib_status find_text(const char *name, int32_t bits, nib_layout *out)
{
    char have[64];
    nib_text list = nib_text_into(have, sizeof(have));
    for (size_t i = 0; i < COUNT(texts); i++) {
        if (strcmp(name, texts[i].name) != 0)
            continue;
        nib_layout layout;
        nib_status status = nib_layout_parse(texts[i].text, &layout);
        if (status)
            return nib_fail_within(NIB_INTERNAL, "layout row '%s'", name);
        if (layout.bits == bits) {
            *out = layout;
            return NIB_OK;
        }
        nib_text_add(&list, "%s%d", list.length ? ", " : "", layout.bits);
    }
    if (!list.length)
        return nib_fail(NIB_INVALID,
                        "'%.40s' is neither the name of a layout row nor a layout text", name);
    return nib_fail(NIB_UNSUPPORTED, "layout row '%s' does not exist for %d bits, only for %s",
                    name, bits, have);
}

nib_status nib_layout_make(const char *name_or_text, int32_t bits, nib_layout *out)
{
    if (!name_or_text)
        return nib_fail(NIB_INVALID, "the layout is NULL; expected a row's name or a layout text");
    if (bits < 0 || bits > 32)
        return nib_fail(NIB_INVALID, "a layout has elements of 1 to 32 bits, not %d", bits);
    nib_layout layout;
    if (!strchr(name_or_text, '=')) {
        if (bits == 0)
            return nib_fail(NIB_INVALID, "layout row '%.40s' needs the bits of an element",
                            name_or_text);
        return find_text(name_or_text, bits, out);
    }
    nib_status status = nib_layout_parse(name_or_text, &layout);
    if (status)
        return nib_fail_within(status, "layout text");
    if (bits && layout.bits != bits)
        return nib_fail(NIB_INVALID, "the layout text has elements of %d bits, the caller %d",
                        layout.bits, bits);
    *out = layout;
    return NIB_OK;
}
