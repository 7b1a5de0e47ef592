/* SPDX-License-Identifier: Apache-2.0
 *
 * What the verbs of `nib` share: exit codes, verbs, the option parser, tables, JSON, progress and
 * interruption. One file a verb (verb_*.c) stands on this header, and on product.h where it runs
 * products; nothing here includes more of nibblas than its public interface.
 */
#ifndef NIB_TOOL_H
#define NIB_TOOL_H

#include <nibblas/nibblas.h>
#include <stdbool.h>
#include <stdio.h>

#ifdef __GNUC__
#define TOOL_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TOOL_PRINTF(text, first)
#endif

/* ---- exit codes (docs/nib.1 lists them) ---- */

typedef enum tool_exit {
    TOOL_OK = 0,
    TOOL_WRONG = 1, /* a check failed: the library computed something else */
    TOOL_USAGE = 2, /* the command line or a description is wrong */
    TOOL_UNSUPPORTED = 3,
    TOOL_MISSING = 4,
    TOOL_CORRUPT = 5,
    TOOL_NO_MEMORY = 6,
    TOOL_DEVICE_LOST = 7,
    TOOL_INTERNAL = 8,
    TOOL_INTERRUPTED = 130
} tool_exit;

/* Prints the library's message of a failed call to stderr; answers the exit code for it. */
tool_exit tool_fail(nib_status status);
/* Prints a message of the tool's own. */
tool_exit tool_error(tool_exit code, const char *format, ...) TOOL_PRINTF(2, 3);

/* ---- verbs ---- */

typedef struct tool_verb {
    const char *name;
    const char *summary;  /* one line for `nib help` */
    const char *usage;    /* what follows "nib NAME" */
    const char *details;  /* paragraphs of at most 78 columns, or NULL */
    const char *examples; /* lines, each ending in a newline */
    tool_exit (*run)(const struct tool_verb *verb, int argc, char **argv);
} tool_verb;

extern const tool_verb tool_verb_devices, tool_verb_gemm, tool_verb_explain, tool_verb_quantize,
    tool_verb_inspect, tool_verb_layout, tool_verb_bench, tool_verb_kernels, tool_verb_compile,
    tool_verb_help, tool_verb_version;

/* Verbs by index, NULL past the last. */
const tool_verb *tool_verb_row(int index);
/* NULL: no such verb; the complaint, with the nearest name, has been printed. */
const tool_verb *tool_verb_find(const char *name);

/* ---- options ---- */

#define TOOL_MAX_LIST 64

typedef struct tool_list {
    int count;
    const char *items[TOOL_MAX_LIST];
} tool_list;

typedef enum tool_option_kind {
    TOOL_FLAG, /* bool */
    TOOL_INT,  /* int64_t */
    TOOL_REAL, /* double, finite and above 0 */
    TOOL_TEXT, /* const char * */
    TOOL_LIST  /* tool_list: may stand several times */
} tool_option_kind;

typedef struct tool_option {
    const char *name; /* without its dashes; NULL ends the list */
    tool_option_kind kind;
    const char *value; /* placeholder for the help, NULL for flags */
    void *out;
    const char *help; /* one line of at most 54 columns */
} tool_option;

/* Parses "--name value", "--name=value" and operands in any order; "--" ends the options. Operands
 * are moved to the front of argv and counted. False: the verb ends now with *code, because help was
 * asked for or the line is wrong, and what there is to say has been said. */
bool tool_parse(const tool_verb *verb, const tool_option *options, int argc, char **argv,
                int *operands, tool_exit *code);

/* Complains about the command line of a verb and points at its help. */
tool_exit tool_usage(const tool_verb *verb, const char *format, ...) TOOL_PRINTF(2, 3);

/* The candidate nearest to a mistyped word, or NULL if none is near. */
const char *tool_nearest(const char *word, const char *const *candidates, int count);

/* ---- tables ---- */

typedef enum tool_style { TOOL_TABLE, TOOL_CSV, TOOL_MARKDOWN } tool_style;

#define TOOL_MAX_COLUMNS 16

/* Cells of text, collected row by row and printed in aligned columns. */
typedef struct tool_table {
    int columns;
    const char *heads[TOOL_MAX_COLUMNS]; /* a head that begins with '>' is right-aligned */
    char **cells;
    size_t count, capacity;
    bool failed; /* memory ran out: printing says so */
} tool_table;

void tool_table_begin(tool_table *table, const char *const *heads, int columns);
void tool_table_add(tool_table *table, const char *format, ...) TOOL_PRINTF(2, 3);
/* Prints and releases. */
void tool_table_end(tool_table *table, tool_style style);
/* Releases only; harmless behind tool_table_end. */
void tool_table_free(tool_table *table);

/* Into a buffer of 32 bytes at least: "96.0 MiB", "1.25 ms". Answers `out`. */
char *tool_format_bytes(char *out, double bytes);
char *tool_format_us(char *out, double us);

/* ---- JSON, written as it comes, indented ---- */

typedef struct tool_json {
    FILE *out;
    int depth;
    bool first;
} tool_json;

/* `key` is NULL inside arrays. */
void tool_json_begin(tool_json *json, const char *key, char bracket);
void tool_json_end(tool_json *json, char bracket);
void tool_json_text(tool_json *json, const char *key, const char *text);
void tool_json_text_n(tool_json *json, const char *key, const char *text, size_t bytes);
void tool_json_int(tool_json *json, const char *key, int64_t value);
/* Infinite and NaN values, which JSON lacks, become null. */
void tool_json_real(tool_json *json, const char *key, double value);
void tool_json_bool(tool_json *json, const char *key, bool value);

/* ---- progress and interruption ---- */

/* A bar on stderr, shown once the work has taken a second, and only on a terminal (or with
 * NIB_PROGRESS=1). */
typedef struct tool_progress {
    const char *title;
    double total, begun_us, shown_us;
    bool wanted, visible;
} tool_progress;

void tool_progress_begin(tool_progress *progress, const char *title, double total);
void tool_progress_at(tool_progress *progress, double done, const char *what);
void tool_progress_end(tool_progress *progress);

double tool_now_us(void);

/* From here on SIGINT, SIGTERM and SIGHUP only raise a flag, for verbs that have files to tidy. */
void tool_interrupt_catch(void);
bool tool_interrupted(void);

#endif
