/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of nib_writer, for nib_source.c: sections are written in pieces, then described in one
 * record of the directory. Every failure to write spoils the writer for good.
 */
#ifndef NIB_FORMATS_NIB_WRITE_H
#define NIB_FORMATS_NIB_WRITE_H

#include "formats/nib.h"

/* Refuses a spoilt writer, an empty name and one that stands already. */
nib_status nib_writer_check_name(nib_writer *writer, const char *name);

nib_status nib_writer_section_begin(nib_writer *writer, nib_section *section);
nib_status nib_writer_section_add(nib_writer *writer, const void *data, size_t bytes);
void nib_writer_section_end(nib_writer *writer, nib_section *section);
/* For a failure between the beginning of a section and its description. */
void nib_writer_spoil(nib_writer *writer);

/* The record of weights whose sections (those with bytes) are written. */
nib_status nib_writer_describe(nib_writer *writer, const char *name,
                               const nib_stored_weights *weights,
                               const nib_section sections[NIB_SECTION_KINDS]);

#endif
