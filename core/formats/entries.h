/* SPDX-License-Identifier: Apache-2.0
 *
 * What file.c needs of entries.c beyond what formats use: see file.h.
 */
#ifndef NIB_FORMATS_ENTRIES_H
#define NIB_FORMATS_ENTRIES_H

#include "formats/file.h"

/* After a format has added everything: indexes names and checks that no name stands twice and no
 * byte belongs to two tensors. */
nib_status nib_entries_seal(nib_file *file);
/* Index of a name, -1 if there is none. */
int64_t nib_entries_find(const nib_file *file, const char *name);
int64_t nib_metas_find(const nib_file *file, const char *key);
void nib_entries_free(nib_file *file);

#endif
