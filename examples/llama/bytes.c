/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing array of bytes.
 */
#include "bytes.h"

#include <stdlib.h>
#include <string.h>

void llama_bytes_free(llama_bytes *bytes)
{
    free(bytes->data);
    *bytes = (llama_bytes){0};
}

unsigned char *llama_bytes_grow(llama_bytes *bytes, size_t count)
{
    if (bytes->failed || count > SIZE_MAX / 4) {
        bytes->failed = true;
        return NULL;
    }
    if (bytes->count + count > bytes->capacity) {
        size_t capacity = 2 * bytes->capacity + count;
        unsigned char *data = realloc(bytes->data, capacity);
        if (!data) {
            bytes->failed = true;
            return NULL;
        }
        bytes->data = data;
        bytes->capacity = capacity;
    }
    unsigned char *place = bytes->data + bytes->count;
    memset(place, 0, count);
    bytes->count += count;
    return place;
}

void llama_bytes_int(llama_bytes *bytes, uint64_t value, int width)
{
    unsigned char *place = llama_bytes_grow(bytes, (size_t)width);
    for (int i = 0; place && i < width; i++)
        place[i] = (unsigned char)(value >> 8 * i);
}

void llama_bytes_string(llama_bytes *bytes, const char *text)
{
    size_t length = strlen(text);
    llama_bytes_int(bytes, length, 8);
    unsigned char *place = llama_bytes_grow(bytes, length);
    if (place)
        memcpy(place, text, length);
}

void llama_bytes_align(llama_bytes *bytes, size_t alignment)
{
    llama_bytes_grow(bytes, (alignment - bytes->count % alignment) % alignment);
}
