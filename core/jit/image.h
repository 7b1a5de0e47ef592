/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel images for backends: what nib_host_api says of image_get, image_put and image_find. Any
 * thread; nothing here is called by a run.
 */
#ifndef NIB_JIT_IMAGE_H
#define NIB_JIT_IMAGE_H

#include <nibblas/backend.h>

nib_status nib_image_get(const nib_image_request *request, nib_image *out);
void nib_image_put(nib_image *image);
nib_status nib_image_find(const nib_image_request *request, nib_image_origin *origin);

#endif
