/* SPDX-License-Identifier: Apache-2.0
 *
 * From text to instructions: what module.c (declarations), body.c (statements), operand.c and
 * decode.c share with the decoders of the ops_*.c files. A parser stops at the first mistake.
 */
#ifndef SIM_CUDA_PARSE_H
#define SIM_CUDA_PARSE_H

#include "arena.h"
#include "ptx.h"

/* A .param, .shared, .local, .global or .const declaration. */
typedef struct sim_declaration {
    const char *name;
    enum sim_type type;
    enum sim_space space;
    size_t bytes, align;
    size_t offset; /* of parameters */
    bool external; /* dynamic shared memory */
    uint8_t *data; /* of .global and .const */
} sim_declaration;

/* A function's text. */
typedef struct sim_source {
    const char *name;
    bool entry;
    sim_declaration *param, *result;
    uint32_t params, results;
    size_t param_bytes;
    const char *body; /* after its brace; NULL for a mere declaration */
    uint32_t line;
    unsigned max_threads, required_block[3], required_cluster[3];
    bool bounded;                       /* max_threads was given */
    unsigned min_blocks, max_registers; /* .minnctapersm, .maxnreg, or 0 */
} sim_source;

struct sim_module {
    sim_arena arena;
    unsigned version, target, capability;
    bool exact; /* .target sm_90a */
    sim_declaration *variable;
    uint32_t variables, variable_room;
    sim_source *source;
    uint32_t sources, source_room;
    sim_function **function;
    uint32_t functions;
};

typedef struct sim_cursor {
    const char *at;
    uint32_t line;
} sim_cursor;

typedef struct sim_symbol {
    const char *name;
    size_t length;  /* of name, or of the prefix of a range */
    uint32_t count; /* of a range %name<count>; 0 for a single one */
    bool is_register;
    uint8_t width, bits;  /* of a register: its slot, as declared */
    uint32_t slot, reg;   /* of the first register */
    enum sim_space space; /* of a variable */
    int64_t value;        /* its address */
    bool dynamic;
    const sim_declaration *variable; /* shared memory of the module once it has a place */
    uint32_t bytes;
} sim_symbol;

typedef struct sim_label {
    const char *name;
    uint32_t scope, target;
    char *list; /* of .branchtargets */
} sim_label;

enum { SIM_PARTS = 32, SIM_ARGS = 12 };

/* The state of linking one entry. */
typedef struct sim_linker {
    sim_module *module;
    sim_function *function;
    char *log;
    size_t log_bytes;
    const sim_source *source; /* being read */
    uint32_t line;
    const char *text; /* the statement */
    bool failed;

    sim_insn *code;
    uint32_t length, room;
    sim_symbol *symbol;
    uint32_t symbols, symbol_room;
    sim_label *label; /* of this source */
    uint32_t labels, label_room;
    uint32_t *scope_parent; /* of this source */
    uint32_t scopes, scope_room, scope;
    sim_operand **patch; /* immediates, and addresses of dynamic shared memory */
    uint32_t patches, patch_room;
    sim_callee **callee;
    uint32_t callees, callee_room;
    uint32_t shared, local; /* bytes so far */
    bool dynamic;
    uint32_t dynamic_align;

    /* The instruction being decoded: its opcode's parts between the dots. */
    char *part[SIM_PARTS];
    bool used[SIM_PARTS];
    uint32_t parts;
    uint32_t read[600], write[600], reads, writes;
} sim_linker;

/* Leaves a sentence with kernel and line in the log, once. Always false. */
bool sim_parse_fail(sim_linker *linker, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Makes room for one more; *items may move. */
bool sim_grow(void **items, uint32_t count, uint32_t *room, size_t size);

/* text.c */
void sim_skip_blank(sim_cursor *cursor);
bool sim_take_word(sim_cursor *cursor, const char *word);
/* Splits a list at the commas outside of brackets, in place. */
uint32_t sim_split(char *text, char **item, uint32_t limit);
char *sim_trim(char *text);
char *sim_blank_comments(const char *text);
/* A declaration from its first ".space" to before "=" or the end, without linkage. */
bool sim_parse_declaration(sim_arena *arena, char *text, sim_declaration *out, const char **why);
bool sim_parse_number(const char *text, unsigned bits, int64_t *value);

/* body.c: links the entry into module->function. */
bool sim_link_entry(sim_module *module, const sim_source *source, char *log, size_t log_bytes);
/* operand.c */
bool sim_parse_operand(sim_linker *linker, char *text, sim_operand *out);
const sim_symbol *sim_find_symbol(const sim_linker *linker, const char *name, uint32_t *index);
bool sim_add_register(sim_linker *linker, const char *name, size_t length, uint32_t count,
                      enum sim_type type);
uint32_t sim_new_slot(sim_linker *linker, unsigned width);
uint32_t sim_reserve_local(sim_linker *linker, size_t bytes, size_t align);

/* special.c */
bool sim_special_operand(sim_linker *linker, const char *name, sim_operand *out);
/* Changes while a block runs. */
bool sim_is_clock(const sim_linker *linker, const sim_operand *operand);
void sim_special_fill(sim_warp *warp);
void sim_special_refresh(sim_warp *warp);

/* decode.c: for the decoders. */
typedef bool sim_decoder(sim_linker *linker, sim_insn *in);
bool sim_decode(sim_linker *linker, sim_insn *in, const char *opcode, char *operands);
bool sim_take(sim_linker *linker, const char *part);
/* The index of the one of the list (ends with NULL) that is there, or -1. */
int sim_take_of(sim_linker *linker, const char *const *list);
/* The next part that is a type. */
enum sim_type sim_take_type(sim_linker *linker);
void sim_take_scopes(sim_linker *linker);
enum sim_round sim_take_round(sim_linker *linker);
/* Checks operands and lists the registers read and written. One letter an operand:
 *   d  destination of in->type            D  destination of twice its bits
 *   s  source of in->type                 S  source of twice its bits
 *   f  source of in->from                 w  source of 32 bits      l  of 64 bits
 *   x  destination of any width           y  source of any width    W  destination of 32 bits
 *   p  source predicate  P  destination predicate, with |q or without
 *   m  address           i  immediate     v  destination vector     V  source vector
 * What follows '?' may be missing. */
bool sim_operands(sim_linker *linker, sim_insn *in, const char *shape);
bool sim_reads(sim_linker *linker, const sim_operand *operand);
bool sim_writes(sim_linker *linker, const sim_operand *operand);
bool sim_use_immediate(sim_linker *linker, sim_operand *operand, unsigned width);

#endif
