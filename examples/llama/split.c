/* SPDX-License-Identifier: Apache-2.0
 *
 * The word pattern of GPT-2, by hand:
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * "smollm" first cuts the text into single numbers \p{N} and the sections between them, then
 * applies the pattern within each section. A section's end counts as the end of the text.
 */
#include "split.h"

#include "unicode.h"

#include <string.h>

static llama_class class_at(const llama_split *split, size_t offset, size_t end, size_t *taken)
{
    return llama_unicode_class(llama_utf8_decode(split->text + offset, end - offset, taken));
}

/* End of the run of `kind` that begins at `offset`. */
static size_t run_end(const llama_split *split, size_t offset, size_t end, llama_class kind)
{
    size_t taken;
    while (offset < end && class_at(split, offset, end, &taken) == kind)
        offset += taken;
    return offset;
}

/* Length of the contraction at `offset`, 0 if there is none. */
static size_t contraction(const llama_split *split, size_t offset, size_t end)
{
    static const char *const tails[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        size_t length = strlen(tails[i]);
        if (length <= end - offset && !memcmp(split->text + offset, tails[i], length))
            return length;
    }
    return 0;
}

/* The next section that begins at `offset`: one number, or all up to the next number. */
static size_t section_end(const llama_split *split, size_t offset)
{
    size_t taken;
    if (!split->digits_separate)
        return split->bytes;
    if (class_at(split, offset, split->bytes, &taken) == LLAMA_NUMBER)
        return offset + taken;
    while (offset < split->bytes && class_at(split, offset, split->bytes, &taken) != LLAMA_NUMBER)
        offset += taken;
    return offset;
}

/* Where the word that begins with white space at `start` ends: the run, but without its last
 * character if text follows, which then begins the next word. */
static size_t space_end(const llama_split *split, size_t start, size_t end)
{
    size_t offset = start, last = start, taken;
    while (offset < end && class_at(split, offset, end, &taken) == LLAMA_SPACE) {
        last = offset;
        offset += taken;
    }
    return offset < end && last > start ? last : offset;
}

static size_t word_end(const llama_split *split, size_t start, size_t end)
{
    size_t tail = contraction(split, start, end);
    if (tail)
        return start + tail;
    size_t taken;
    size_t body = start + (split->text[start] == ' ');
    llama_class kind = body < end ? class_at(split, body, end, &taken) : LLAMA_SPACE;
    if (kind != LLAMA_SPACE)
        return run_end(split, body, end, kind);
    return space_end(split, start, end);
}

bool llama_split_next(llama_split *split, const char **word, size_t *length)
{
    size_t start = split->position;
    if (start >= split->bytes)
        return false;
    if (start >= split->section)
        split->section = section_end(split, start);
    split->position = word_end(split, start, split->section);
    *word = split->text + start;
    *length = split->position - start;
    return true;
}
