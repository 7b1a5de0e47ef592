/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests for images: which files a kernel takes, its spec and label, and the list of images that
 * ahead-of-time packs are made of. Run time and build time ask with the same text.
 */
#include "host/host.h"
#include "variants/convert.h"
#include "variants/quantize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 256 };

/* ptxas -v: registers and spills of each kernel stand in its log (`nib kernels --show log`). */
static const char flags[] = "--std=c++17 -default-device --ptxas-options=-v";

static const nib_image_file *source_named(const char *name, size_t length)
{
    for (const nib_image_file *file = nib_cuda_sources; file->name; file++)
        if (strlen(file->name) == length && !memcmp(file->name, name, length))
            return file;
    return NULL;
}

/* The name between quotes of the next #include at or after `text`, NULL: no more. */
static const char *next_include(const char *text, size_t *length)
{
    static const char word[] = "#include \"";
    const char *at = strstr(text, word);
    if (!at)
        return NULL;
    at += sizeof(word) - 1;
    *length = strcspn(at, "\"\n");
    return at;
}

static bool listed(const nib_cuda_recipe *recipe, const nib_image_file *file)
{
    for (uint32_t i = 0; i < recipe->request.file_count; i++)
        if (recipe->files[i].name == file->name)
            return true;
    return false;
}

/* Appends what file `index` includes; nib_spec.h is not among the sources. */
static nib_status add_includes(nib_cuda_recipe *recipe, uint32_t index)
{
    size_t length;
    const char *name = recipe->files[index].text;
    while ((name = next_include(name, &length)) != NULL) {
        const nib_image_file *file = source_named(name, length);
        if (!file || listed(recipe, file))
            continue;
        if (recipe->request.file_count == NIB_CUDA_MOST_FILES)
            return nib_cuda_host->fail(NIB_INTERNAL, "%s includes more than %d files",
                                       recipe->files[0].name, NIB_CUDA_MOST_FILES);
        recipe->files[recipe->request.file_count++] = *file;
    }
    return NIB_OK;
}

nib_status nib_cuda_recipe_make(const char *source, const char *spec, const char *label,
                                const char *isa, nib_cuda_recipe *out)
{
    const nib_image_file *first = source_named(source, strlen(source));
    const char *reason;
    if (!first)
        return nib_cuda_host->fail(NIB_INTERNAL, "there is no kernel source %s", source);
    *out = (nib_cuda_recipe){.files[0] = *first, .spec = strdup(spec)};
    if (!out->spec)
        return nib_cuda_host->fail(NIB_NO_MEMORY, "no memory for a kernel's constants");
    snprintf(out->label, sizeof(out->label), "%s", label);
    out->request = (nib_image_request){
        .size = sizeof(out->request),
        .file_count = 1,
        .backend = "cuda",
        .isa = isa,
        .format = strncmp(isa, "compute_", 8) ? "cubin" : "ptx",
        .label = out->label,
        .spec = out->spec,
        .files = out->files,
        .flags = flags,
        .compiler_path = nib_cuda_nvrtc_path(0, &reason),
    };
    if (out->request.compiler_path)
        out->request.compile = nib_cuda_nvrtc_compile;
    for (uint32_t i = 0; i < out->request.file_count; i++) {
        nib_status status = add_includes(out, i);
        if (status) {
            nib_cuda_recipe_free(out);
            return status;
        }
    }
    return NIB_OK;
}

void nib_cuda_recipe_free(nib_cuda_recipe *recipe)
{
    free(recipe->spec);
}

nib_status nib_cuda_spec_make(const nib_cuda_row *row, const nib_cuda_chip *chip,
                              const nib_gemm_desc *desc, char **spec)
{
    nib_cuda_spec text = {0};
    for (;;) {
        text.length = 0;
        row->family->spec(row, chip, desc, &text);
        if (text.text && text.length < text.capacity)
            break;
        char *grown = realloc(text.text, text.length + 1);
        if (!grown) {
            free(text.text);
            return nib_cuda_host->fail(NIB_NO_MEMORY, "no memory for a kernel's constants");
        }
        text.text = grown;
        text.capacity = text.length + 1;
        text.text[0] = '\0';
    }
    *spec = text.text;
    return NIB_OK;
}

void nib_cuda_label(const nib_cuda_row *row, const nib_gemm_desc *desc, char *text, size_t bytes)
{
    static const char *const zeros[] = {"", "zf", "zr", "zc"};
    const nib_weight_desc *w = &desc->weight;
    char group[32] = "t";
    if (w->group == NIB_GROUP_ROW)
        snprintf(group, sizeof(group), "r");
    else if (w->group > 0)
        snprintf(group, sizeof(group), "%lld", (long long)w->group);
    snprintf(text, bytes, "w%s_g%s%s_s%s_a%s-%s", nib_cuda_host->type_name(w->type), group,
             zeros[w->zero], nib_cuda_host->type_name(w->scale_type),
             nib_cuda_host->type_name(desc->act_type), row->variant.id);
}

nib_status nib_cuda_isa(uint32_t index, const char **name)
{
    const nib_cuda_target *target = nib_cuda_target_at(index);
    *name = target ? target->isa : NULL;
    return NIB_OK;
}

/* One row's image for a description. */
static nib_status row_image(const nib_cuda_row *row, const nib_cuda_chip *chip,
                            const nib_gemm_desc *desc, const char *isa,
                            nib_status (*each)(void *user, const nib_image_request *request),
                            void *user)
{
    char *spec = NULL, label[NIB_CUDA_LABEL_BYTES];
    nib_cuda_recipe recipe;
    nib_status status = nib_cuda_spec_make(row, chip, desc, &spec);
    if (status)
        return status;
    nib_cuda_label(row, desc, label, sizeof(label));
    status = nib_cuda_recipe_make(row->family->source, spec, label, isa, &recipe);
    free(spec);
    if (status)
        return status;
    status = each(user, &recipe.request);
    nib_cuda_recipe_free(&recipe);
    return status;
}

/* Whether a row runs a description for m at all on a target. */
static bool serves(const nib_cuda_target *target, const nib_cuda_chip *chip,
                   const nib_cuda_row *row, const nib_gemm_desc *desc, int64_t m)
{
    return m >= row->variant.m_min && (!row->variant.m_max || m <= row->variant.m_max) &&
           (target->own_cc || row->portable) && !nib_cuda_row_refusal(row, chip, desc);
}

/* Marks the rows that plans on a chip take: the planner's choice at each m at which it compares, or
 * all that may be, where it ties rows together by their bits. */
static void mark_planned(const nib_cuda_target *target, const nib_cuda_chip *chip,
                         const nib_gemm_desc *desc, bool planned[MOST_ROWS])
{
    static const int64_t samples[] = {1,  2,  3,  4,   5,   6,   7,   8,   12,   16,   24,   32,
                                      48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096, 8192};
    bool invariant = desc->flags & NIB_GEMM_BATCH_INVARIANT;
    const nib_cuda_row *row;
    const char *bound;
    for (size_t s = 0; s < sizeof(samples) / sizeof(samples[0]); s++) {
        int best = -1;
        double least = 0;
        for (int i = 0; i < MOST_ROWS && (row = nib_cuda_row_at((uint32_t)i)) != NULL; i++) {
            if (!serves(target, chip, row, desc, samples[s]))
                continue;
            if (invariant) {
                planned[i] = planned[i] || row->variant.batch_invariant;
                continue;
            }
            double us = row->family->predict(row, chip, desc, samples[s], &bound);
            if (best < 0 || us < least) {
                best = i;
                least = us;
            }
        }
        if (best >= 0)
            planned[best] = true;
    }
}

/* Packing weights for any description takes it. */
static nib_status convert_image(const char *isa,
                                nib_status (*each)(void *user, const nib_image_request *request),
                                void *user)
{
    nib_cuda_recipe recipe;
    nib_status status =
        nib_cuda_recipe_make(NIB_CUDA_CONVERT_SOURCE, "", NIB_CUDA_CONVERT_LABEL, isa, &recipe);
    if (status)
        return status;
    status = each(user, &recipe.request);
    nib_cuda_recipe_free(&recipe);
    return status;
}

/* What makes activations of 16 bits ready for a product with 8. */
static nib_status quantize_images(const char *isa, const nib_gemm_desc *desc,
                                  nib_status (*each)(void *user, const nib_image_request *request),
                                  void *user)
{
    static const nib_type from[] = {NIB_F16, NIB_BF16};
    char spec[NIB_CUDA_QUANTIZE_SPEC_BYTES], label[NIB_CUDA_LABEL_BYTES];
    bool eight = nib_cuda_host->type_bits(desc->act_type) == 8;
    if (!eight || (desc->act_scale != NIB_ACT_SCALE_ROW && desc->act_scale != NIB_ACT_SCALE_TENSOR))
        return NIB_OK;
    for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
        const nib_act_quantizer_desc quantizer = {.size = sizeof(quantizer),
                                                  .from = from[i],
                                                  .to = desc->act_type,
                                                  .scale = desc->act_scale};
        nib_cuda_recipe recipe;
        nib_cuda_quantize_spec(&quantizer, spec);
        nib_cuda_quantizer_label(&quantizer, label, sizeof(label));
        nib_status status =
            nib_cuda_recipe_make(NIB_CUDA_QUANTIZE_SOURCE, spec, label, isa, &recipe);
        if (status)
            return status;
        status = each(user, &recipe.request);
        nib_cuda_recipe_free(&recipe);
        if (status)
            return status;
    }
    return NIB_OK;
}

nib_status nib_cuda_images(const char *isa, const nib_gemm_desc *desc,
                           nib_status (*each)(void *user, const nib_image_request *request),
                           void *user)
{
    const nib_cuda_target *target = nib_cuda_target_named(isa);
    nib_cuda_chip usual, product;
    bool planned[MOST_ROWS] = {false};
    if (!target)
        return nib_cuda_host->fail(
            NIB_INVALID, "'%s' is no ISA of CUDA kernels: sm_80 and compute_80 are two", isa);
    nib_cuda_chip_usual(target, &usual);
    mark_planned(target, &usual, desc, planned);
    for (uint32_t i = 0; nib_cuda_chip_product(target, i, &product); i++)
        mark_planned(target, &product, desc, planned);
    bool any = false;
    for (uint32_t i = 0; i < MOST_ROWS; i++) {
        const nib_cuda_row *row = planned[i] ? nib_cuda_row_at(i) : NULL;
        nib_status status = row ? row_image(row, &usual, desc, isa, each, user) : NIB_OK;
        if (status)
            return status;
        any = any || row;
    }
    nib_status status = any ? convert_image(isa, each, user) : NIB_OK;
    return any && !status ? quantize_images(isa, desc, each, user) : status;
}
