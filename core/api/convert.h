/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between layouts that a device does in its own memory, so that packing a large model moves
 * its bytes once and as they are. Bits are those of nib_matrix_copy, padding included.
 *
 * Each answers NIB_UNSUPPORTED or NIB_NO_MEMORY where core had better copy in host memory; nothing
 * that a caller owns has changed then.
 */
#ifndef NIB_API_CONVERT_H
#define NIB_API_CONVERT_H

#include "layout/layout.h"
#include "registry/device.h"

/* Whether a failure of the functions below means to copy in host memory. */
static inline bool nib_convert_declined(nib_status status)
{
    return status == NIB_UNSUPPORTED || status == NIB_NO_MEMORY;
}

/* As nib_matrix_copy, with `from` and `to` in the device's memory. Waits for the end. */
nib_status nib_convert_on_device(nib_device *dev, const nib_matrix *from, int64_t n0, int64_t k0,
                                 const nib_matrix *to, const nib_copy_change *change);
/* The same with `from` in host memory, of which all goes up. */
nib_status nib_convert_to_device(nib_device *dev, const nib_matrix *from, int64_t n0, int64_t k0,
                                 const nib_matrix *to, const nib_copy_change *change);
/* All of `from`, in the device's memory, to host memory; declines layouts with gaps. */
nib_status nib_convert_to_host(nib_device *dev, const nib_matrix *from, const nib_matrix *to);

#endif
