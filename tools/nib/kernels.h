/* SPDX-License-Identifier: Apache-2.0
 *
 * Showing one compiled kernel: what verb_kernels.c finds, kernel_show.c prints or hands to a pager.
 */
#ifndef NIB_TOOL_KERNELS_H
#define NIB_TOOL_KERNELS_H

#include "tool.h"

/* What --show takes, for messages: "spec, source, log, ..". */
extern const char tool_kernel_parts[];

/* Shows a part of a kernel. `file` names one of its sources, NULL: the one that is compiled. */
tool_exit tool_kernel_show(nib_kernels *kernels, int64_t index, const char *part, const char *file);

#endif
