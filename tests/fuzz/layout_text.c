/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a layout text. What parses must print, parse back to the same layout, and carry a
 * small matrix there and back. What does not must be refused with a message.
 */
#include "layout/layout.h"

#include <stdlib.h>
#include <string.h>

/* Tiles up to 2^16 elements with gaps of up to 16 MB: skip matrices above this. */
#define MOST_BYTES (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds)
        abort();
}

static void carry(const nib_layout *layout, int64_t n, int64_t k)
{
    size_t bytes;
    nib_matrix from, to;
    nib_layout wide;
    require(!nib_layout_make("plain", 32, &wide));
    wide.bits = wide.plane[0].bits = layout->bits;
    if (nib_layout_total_bytes(layout, n, k, &bytes) || bytes > MOST_BYTES)
        return;
    uint32_t mask = (uint32_t)((UINT64_C(1) << layout->bits) - 1);
    uint32_t *codes = malloc((size_t)(n * k) * 4), *back = malloc((size_t)(n * k) * 4);
    void *packed = malloc(bytes);
    require(codes && back && packed);
    for (int64_t i = 0; i < n * k; i++)
        codes[i] = (uint32_t)i * 2654435761u & mask;
    require(!nib_matrix_at(&wide, codes, n, k, &from) && !nib_matrix_at(layout, packed, n, k, &to));
    require(!nib_matrix_copy(&from, 0, 0, &to, NULL));
    require(!nib_matrix_at(&wide, back, n, k, &from));
    require(!nib_matrix_copy(&to, 0, 0, &from, NULL));
    require(memcmp(codes, back, (size_t)(n * k) * 4) == 0);
    free(codes);
    free(back);
    free(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), again[NIB_LAYOUT_TEXT_BYTES];
    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    nib_layout layout, second;
    size_t needed;
    nib_status status = nib_layout_make(text, 0, &layout);
    if (status) {
        require(nib_last_message()[0] != '\0');
    } else {
        require(!nib_layout_text(&layout, again, sizeof(again), &needed));
        require(needed <= sizeof(again));
        require(!nib_layout_make(again, layout.bits, &second));
        require(memcmp(&layout, &second, sizeof(layout)) == 0);
        carry(&layout, 5, 37);
        carry(&layout, 33, 64);
        char explained[256];
        require(!nib_layout_explain(text, again, 0, explained, sizeof(explained), NULL));
        require(nib_layout_free_word(&layout, &second) >= 0);
    }
    free(text);
    return 0;
}
