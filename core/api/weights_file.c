/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed weights to and from .nib files. Loading uses the mapping itself when the file holds the
 * gemm's layout and the device reads host memory; else it converts.
 */
#include "api/internal.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

nib_status nib_writer_add_weights(nib_writer *writer, const char *name, const nib_weights *weights)
{
    if (!writer || !name || !weights)
        return nib_fail(NIB_INVALID, "nib_writer_add_weights needs a writer, a name and weights");
    nib_stored_weights stored;
    void *owned;
    nib_status status = nib_weights_host(weights, &stored, &owned);
    if (status)
        return status;
    status = nib_writer_add_stored(writer, name, &stored);
    free(owned);
    return status;
}

nib_status nib_weights_save(const nib_weights *weights, const char *path)
{
    if (!weights || !path)
        return nib_fail(NIB_INVALID, "nib_weights_save needs weights and a path");
    nib_writer *writer;
    nib_status status = nib_writer_create(path, &writer);
    if (status)
        return status;
    status = nib_writer_add_weights(writer, "weights", weights);
    if (status) {
        nib_writer_discard(writer);
        return status;
    }
    return nib_writer_finish(writer);
}

/* Whether a gemm can read stored weights where they are. What it must refuse is left to the copy,
 * which says why. */
static bool can_map(const nib_stored_weights *stored, const nib_gemm *gemm)
{
    nib_packing packing;
    return gemm->dev->host_memory && (stored->alpha == 1 || gemm->desc.out_type != NIB_I32) &&
           nib_weight_desc_equal(&stored->desc, &gemm->desc.weight) &&
           nib_packing_make(&stored->desc, stored->layout, stored->scale_layout,
                            stored->zero_layout, &packing) == NIB_OK &&
           packing.hash == gemm->packing.hash;
}

static nib_status map_stored(const nib_stored_weights *stored, nib_gemm *gemm, nib_weights **out)
{
    nib_weights *w = calloc(1, sizeof(*w));
    if (!w)
        return nib_fail(NIB_NO_MEMORY, "no memory for weights");
    w->dev = gemm->dev;
    w->desc = gemm->desc.weight;
    w->packing = gemm->packing;
    nib_packed *p = &w->packed;
    *p = (nib_packed){.size = sizeof(*p),
                      .planes = (uint32_t)w->packing.codes.planes,
                      .desc = &w->desc,
                      .scales = stored->section[NIB_SECTION_SCALES],
                      .scales_bytes = stored->bytes[NIB_SECTION_SCALES],
                      .zeros = stored->section[NIB_SECTION_ZEROS],
                      .zeros_bytes = stored->bytes[NIB_SECTION_ZEROS],
                      .g_idx = stored->section[NIB_SECTION_G_IDX],
                      .table = stored->section[NIB_SECTION_TABLE],
                      .alpha = stored->alpha};
    for (uint32_t i = 0; i < p->planes; i++) {
        p->codes[i] = stored->section[NIB_SECTION_CODES0 + i];
        p->codes_bytes[i] = stored->bytes[NIB_SECTION_CODES0 + i];
    }
    *out = w;
    return NIB_OK;
}

/* Any quantised tensor that is not in a .nib file: packed from where it lies in the mapping. */
static nib_status pack_foreign(const nib_file *file, int64_t index, nib_gemm *gemm,
                               nib_weights **out)
{
    nib_weight_desc desc = {.size = sizeof(desc)};
    nib_weight_source source = {.size = sizeof(source)};
    nib_status status = nib_file_source(file, index, &desc, &source);
    if (status)
        return status;
    if (!nib_weight_desc_equal(&desc, &gemm->desc.weight)) {
        char is[NIB_DESC_LINE_BYTES], want[NIB_DESC_LINE_BYTES];
        nib_weight_desc_print(&desc, is, sizeof(is), NULL);
        nib_weight_desc_print(&gemm->desc.weight, want, sizeof(want), NULL);
        return nib_fail(NIB_INVALID, "the tensor is %s, the gemm takes %s", is, want);
    }
    return nib_weights_pack(gemm, &source, out);
}

nib_status nib_file_weights(const nib_file *file, int64_t index, nib_gemm *gemm, nib_weights **out)
{
    if (!file || !gemm || !out)
        return nib_fail(NIB_INVALID,
                        "nib_file_weights needs a file, a gemm and a place for the weights");
    if (strcmp(nib_file_format(file), "nib"))
        return pack_foreign(file, index, gemm, out);
    nib_stored_weights stored;
    nib_status status = nib_file_stored_weights(file, index, &stored);
    if (status)
        return status;
    if (can_map(&stored, gemm))
        return map_stored(&stored, gemm, out);
    return nib_weights_from_stored(&stored, 0, stored.desc.n, 0, stored.desc.k, gemm, out);
}

nib_status nib_weights_load(nib_gemm *gemm, const char *path, nib_weights **out)
{
    if (!gemm || !path || !out)
        return nib_fail(NIB_INVALID,
                        "nib_weights_load needs a gemm, a path and a place for the weights");
    nib_file *file;
    nib_weights *weights = NULL;
    nib_status status = nib_file_open(path, &file);
    if (status)
        return status;
    if (nib_file_tensor_count(file) != 1) {
        nib_file_close(file);
        return nib_fail(NIB_INVALID,
                        "%s does not hold exactly one tensor: open it with nib_file_open", path);
    }
    status = nib_file_weights(file, 0, gemm, &weights);
    if (status) {
        nib_file_close(file);
        return nib_fail_within(status, "%s", path);
    }
    if (weights->memory)
        nib_file_close(file);
    else
        weights->file = file;
    *out = weights;
    return NIB_OK;
}
