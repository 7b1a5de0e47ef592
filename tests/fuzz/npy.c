/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes npy files: whatever the bytes, opening and reading them neither crashes nor reads too far.
 * Seeds: corpus/npy.
 */
#include "../support/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    test_walk(data, bytes);
    return 0;
}
