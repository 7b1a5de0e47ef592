/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: a backend's device by selector, opened. The machine model that planning reads is `info`.
 */
#ifndef NIB_REGISTRY_DEVICE_H
#define NIB_REGISTRY_DEVICE_H

#include "registry/registry.h"

#include <stdbool.h>

struct nib_device {
    const nib_backend *backend;
    uint32_t index;
    void *handle; /* the backend's own */
    bool host_memory;
    nib_device_info info;
};

#endif
