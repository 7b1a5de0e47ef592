/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows as the Markdown tables of docs/performance.md: one a product and twin, with the columns that
 * were measured.
 */
#ifndef NIB_BENCH_TABLES_H
#define NIB_BENCH_TABLES_H

#include "support/row.h"

void bench_tables(FILE *out, const bench_rows *rows);

#endif
