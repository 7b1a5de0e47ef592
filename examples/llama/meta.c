/* SPDX-License-Identifier: Apache-2.0
 *
 * Typed metadata look-ups. Every refusal names the key, what is there and what would be right.
 */
#include "meta.h"

#include "error.h"

static const char *kind_name(nib_meta_kind kind)
{
    switch (kind) {
    case NIB_META_INT:
        return "an integer";
    case NIB_META_FLOAT:
        return "a real number";
    case NIB_META_BOOL:
        return "a boolean";
    case NIB_META_STRING:
        return "a string";
    case NIB_META_ARRAY:
        return "an array";
    }
    return "of an unknown kind";
}

/* *found is false, with NIB_OK, for an optional key that is missing. */
static nib_status find(const nib_file *file, const char *key, llama_need need, nib_meta_kind kind,
                       nib_meta *value, bool *found)
{
    *value = (nib_meta){.size = sizeof *value};
    *found = false;
    nib_status status = nib_file_meta_find(file, key, value);
    if (status == NIB_MISSING && need == LLAMA_OPTIONAL)
        return NIB_OK;
    if (status == NIB_MISSING)
        return llama_fail(NIB_CORRUPT, "the metadata lack '%s', which must be %s", key,
                          kind_name(kind));
    if (status != NIB_OK)
        return llama_fail_nib(status, "metadata '%s'", key);
    if (value->kind != kind)
        return llama_fail(NIB_CORRUPT, "metadata '%s' is %s; it must be %s", key,
                          kind_name(value->kind), kind_name(kind));
    *found = true;
    return NIB_OK;
}

nib_status llama_meta_int(const nib_file *file, const char *key, llama_need need, int64_t least,
                          int64_t most, int64_t *value)
{
    nib_meta meta;
    bool found;
    nib_status status = find(file, key, need, NIB_META_INT, &meta, &found);
    if (status != NIB_OK || !found)
        return status;
    if (meta.integer < least || meta.integer > most)
        return llama_fail(NIB_CORRUPT, "metadata '%s' is %lld; it must be within %lld..%lld", key,
                          (long long)meta.integer, (long long)least, (long long)most);
    *value = meta.integer;
    return NIB_OK;
}

nib_status llama_meta_real(const nib_file *file, const char *key, llama_need need, double least,
                           double most, double *value)
{
    nib_meta meta;
    bool found;
    nib_status status = find(file, key, need, NIB_META_FLOAT, &meta, &found);
    if (status != NIB_OK || !found)
        return status;
    if (!(meta.real >= least && meta.real <= most)) /* refuses NaN too */
        return llama_fail(NIB_CORRUPT, "metadata '%s' is %g; it must be within %g..%g", key,
                          meta.real, least, most);
    *value = meta.real;
    return NIB_OK;
}

nib_status llama_meta_bool(const nib_file *file, const char *key, bool *value)
{
    nib_meta meta;
    bool found;
    nib_status status = find(file, key, LLAMA_OPTIONAL, NIB_META_BOOL, &meta, &found);
    if (status == NIB_OK && found)
        *value = meta.integer != 0;
    return status;
}

nib_status llama_meta_text(const nib_file *file, const char *key, llama_need need,
                           const char **text, int64_t *bytes)
{
    nib_meta meta;
    bool found;
    nib_status status = find(file, key, need, NIB_META_STRING, &meta, &found);
    if (status != NIB_OK)
        return status;
    *text = found ? meta.text : NULL;
    *bytes = found ? meta.count : 0;
    return NIB_OK;
}

nib_status llama_meta_array(const nib_file *file, const char *key, llama_need need, int64_t most,
                            nib_meta *array)
{
    nib_meta meta;
    bool found;
    nib_status status = find(file, key, need, NIB_META_ARRAY, &meta, &found);
    if (status != NIB_OK)
        return status;
    if (!found)
        meta = (nib_meta){.size = sizeof meta, .kind = NIB_META_ARRAY};
    if (meta.count > most)
        return llama_fail(NIB_CORRUPT, "metadata '%s' has %lld items; at most %lld make sense", key,
                          (long long)meta.count, (long long)most);
    *array = meta;
    return NIB_OK;
}

static nib_status item(const nib_file *file, const char *key, const nib_meta *array, int64_t index,
                       nib_meta_kind kind, nib_meta *value)
{
    *value = (nib_meta){.size = sizeof *value};
    nib_status status = nib_file_meta_item(file, array, index, value);
    if (status != NIB_OK)
        return llama_fail_nib(status, "metadata '%s', item %lld", key, (long long)index);
    if (value->kind != kind)
        return llama_fail(NIB_CORRUPT, "metadata '%s', item %lld is %s; it must be %s", key,
                          (long long)index, kind_name(value->kind), kind_name(kind));
    return NIB_OK;
}

nib_status llama_meta_text_item(const nib_file *file, const char *key, const nib_meta *array,
                                int64_t index, const char **text, int64_t *bytes)
{
    nib_meta meta;
    nib_status status = item(file, key, array, index, NIB_META_STRING, &meta);
    if (status != NIB_OK)
        return status;
    *text = meta.text;
    *bytes = meta.count;
    return NIB_OK;
}

nib_status llama_meta_int_item(const nib_file *file, const char *key, const nib_meta *array,
                               int64_t index, int64_t *value)
{
    nib_meta meta;
    nib_status status = item(file, key, array, index, NIB_META_INT, &meta);
    if (status == NIB_OK)
        *value = meta.integer;
    return status;
}
