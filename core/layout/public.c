/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout functions of the public interface that are not text for readers: print, bytes and
 * convert. nib_layout_row is in rows.c, nib_layout_explain in explain.c.
 */
#include "base/status.h"
#include "layout/layout.h"

#include <stddef.h>

nib_status nib_layout_print(const char *layout, int32_t bits, char *text, size_t capacity,
                            size_t *needed)
{
    nib_layout made;
    nib_status status = nib_layout_make(layout, bits, &made);
    return status ? status : nib_layout_text(&made, text, capacity, needed);
}

nib_status nib_layout_bytes(const char *layout, int32_t bits, int64_t n, int64_t k, size_t *bytes)
{
    nib_layout made;
    nib_status status = nib_layout_make(layout, bits, &made);
    if (!status && !bytes)
        status = nib_fail(NIB_INVALID, "bytes is NULL; expected where to write the answer");
    return status ? status : nib_layout_total_bytes(&made, n, k, bytes);
}

nib_status nib_layout_convert(const char *from, const void *from_codes, const char *to,
                              void *to_codes, int32_t bits, int64_t n, int64_t k)
{
    nib_layout source, target;
    nib_matrix in, out;
    if (!from_codes || !to_codes)
        return nib_fail(NIB_INVALID, "%s is NULL; expected a matrix of codes",
                        from_codes ? "to_codes" : "from_codes");
    nib_status status = nib_layout_make(from, bits, &source);
    if (!status)
        status = nib_layout_make(to, source.bits, &target);
    /* The source is only read: nib_matrix serves both directions. */
    if (!status)
        status = nib_matrix_at(&source, (void *)(uintptr_t)from_codes, n, k, &in);
    if (!status)
        status = nib_matrix_at(&target, to_codes, n, k, &out);
    return status ? status : nib_matrix_copy(&in, 0, 0, &out, NULL);
}
