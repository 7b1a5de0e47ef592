/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins on disk: libnibblas-<name>.so in a folder, opened in the order of their names.
 */
#ifndef NIB_REGISTRY_LOADER_H
#define NIB_REGISTRY_LOADER_H

#include <nibblas/nibblas.h>

/* Opens every plugin of a folder that was not opened before and adds its backend. */
nib_status nib_loader_scan(const char *folder);

#endif
