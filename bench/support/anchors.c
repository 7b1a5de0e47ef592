/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of anchors: lines n,k,m,cublas_f16,marlin,humming,cutlass,gemlite,best_name,best,
 * read_floor, with a head; an empty field was not measured.
 */
#include "support/anchors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS 11

static bool parse(char *line, bench_anchor *a)
{
    char *field[FIELDS], *rest = line;
    for (int i = 0; i < FIELDS; i++)
        if (!(field[i] = strsep(&rest, ",")))
            return false;
    a->n = atoll(field[0]);
    a->k = atoll(field[1]);
    a->m = atoll(field[2]);
    a->cublas = atof(field[3]);
    a->marlin = atof(field[4]);
    a->humming = atof(field[5]);
    a->cutlass = atof(field[6]);
    a->gemlite = atof(field[7]);
    snprintf(a->best_name, sizeof(a->best_name), "%s", field[8]);
    a->best = atof(field[9]);
    a->floor = atof(field[10]);
    return a->n > 0 && a->k > 0 && a->m > 0;
}

bool bench_anchors_read(const char *path, bench_anchors *out)
{
    char line[256];
    FILE *file = fopen(path, "r");
    bool good = file && fgets(line, sizeof(line), file);
    out->count = 0;
    while (good && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\r\n")] = 0;
        good = out->count < BENCH_MAX_ANCHORS && parse(line, &out->row[out->count]);
        out->count += good;
    }
    if (file)
        fclose(file);
    return good;
}

const bench_anchor *bench_anchors_find(const bench_anchors *anchors, int64_t n, int64_t k,
                                       int64_t m)
{
    for (int i = 0; i < anchors->count; i++)
        if (anchors->row[i].n == n && anchors->row[i].k == k && anchors->row[i].m == m)
            return &anchors->row[i];
    return NULL;
}
