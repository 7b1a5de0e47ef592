/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion of layouts in device memory: core does it on the host where this declines.
 */
#include "host/host.h"

nib_status nib_cuda_convert(void *dev, const nib_convert_args *args)
{
    (void)dev, (void)args;
    return nib_cuda_host->fail(NIB_UNSUPPORTED, "no kernel for conversions is built in");
}
