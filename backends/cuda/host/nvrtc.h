/* SPDX-License-Identifier: Apache-2.0
 *
 * NVRTC, the vendor's run-time compiler: found without opening it, opened at the first compilation.
 */
#ifndef NIB_CUDA_NVRTC_H
#define NIB_CUDA_NVRTC_H

#include <nibblas/backend.h>

/* The file that would be opened, NULL with the reason when there is none. `driver` is the driver's
 * version (13000): code by a newer compiler would not load; 0 takes the newest. */
const char *nib_cuda_nvrtc_path(int driver, const char **why);

enum { NIB_CUDA_REASON_BYTES = 512 };

/* nib_image_request.compile, to the request's format. `user` is NULL or receives the reason of a
 * failure, NIB_CUDA_REASON_BYTES. */
nib_status nib_cuda_nvrtc_compile(void *user, const nib_image_request *request,
                                  nib_image_build *out);

#endif
