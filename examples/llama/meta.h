/* SPDX-License-Identifier: Apache-2.0
 *
 * Typed look-ups in a file's metadata that refuse a wrong kind or an absurd value with a sentence.
 */
#ifndef LLAMA_META_H
#define LLAMA_META_H

#include <nibblas/nibblas.h>

#include <stdbool.h>

typedef enum llama_need {
    LLAMA_OPTIONAL = 0, /* a missing key leaves the default in the output */
    LLAMA_REQUIRED = 1
} llama_need;

nib_status llama_meta_int(const nib_file *file, const char *key, llama_need need, int64_t least,
                          int64_t most, int64_t *value);
nib_status llama_meta_real(const nib_file *file, const char *key, llama_need need, double least,
                           double most, double *value);
nib_status llama_meta_bool(const nib_file *file, const char *key, bool *value);
/* The text lies in the file's memory and has no final NUL. Optional and missing: *text is NULL. */
nib_status llama_meta_text(const nib_file *file, const char *key, llama_need need,
                           const char **text, int64_t *bytes);
/* An array of `most` items at most. Optional and missing: array->count is 0. */
nib_status llama_meta_array(const nib_file *file, const char *key, llama_need need, int64_t most,
                            nib_meta *array);
/* Items of an array, of the named kind. */
nib_status llama_meta_text_item(const nib_file *file, const char *key, const nib_meta *array,
                                int64_t index, const char **text, int64_t *bytes);
nib_status llama_meta_int_item(const nib_file *file, const char *key, const nib_meta *array,
                               int64_t index, int64_t *value);

#endif
