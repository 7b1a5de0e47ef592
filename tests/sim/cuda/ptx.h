/* SPDX-License-Identifier: Apache-2.0
 *
 * A program as the interpreter runs it: types, operands, instructions, functions. module.c and
 * body.c build it from text, decode.c and the ops_*.c files fill instructions in, schedule.c runs
 * it. Private to this folder.
 */
#ifndef SIM_CUDA_PTX_H
#define SIM_CUDA_PTX_H

#include "sim.h"

enum { SIM_LANES = 32 };

enum sim_type {
    SIM_TYPE_NONE,
    SIM_B8,
    SIM_B16,
    SIM_B32,
    SIM_B64,
    SIM_B128,
    SIM_U8,
    SIM_U16,
    SIM_U32,
    SIM_U64,
    SIM_S8,
    SIM_S16,
    SIM_S32,
    SIM_S64,
    SIM_U16X2,
    SIM_S16X2,
    SIM_F16,
    SIM_BF16,
    SIM_F32,
    SIM_F64,
    SIM_F16X2,
    SIM_BF16X2,
    SIM_TF32,
    SIM_E4M3,
    SIM_E5M2,
    SIM_E4M3X2,
    SIM_E5M2X2,
    SIM_E2M1X2,
    SIM_E2M3X2,
    SIM_E3M2X2,
    SIM_UE8M0X2,
    SIM_U4,
    SIM_S4,
    SIM_PRED,
    SIM_TYPES
};

enum sim_space {
    SIM_SPACE_GENERIC,
    SIM_SPACE_GLOBAL,
    SIM_SPACE_SHARED,
    SIM_SPACE_LOCAL,
    SIM_SPACE_PARAM,
    SIM_SPACE_CONST,
};

/* Generic addresses of the windows; the low 32 bits are the address inside. */
#define SIM_WINDOW_SHARED UINT64_C(0xff00000000000000)
#define SIM_WINDOW_LOCAL  UINT64_C(0xfe00000000000000)
#define SIM_WINDOW_PARAM  UINT64_C(0xfd00000000000000)
#define SIM_WINDOW_MASK   UINT64_C(0xff00000000000000)
/* Shared and local memory begin here, so that a null pointer hits nothing. A block of rank r of a
 * cluster has its shared memory at r << 24. */
#define SIM_SHARED_BASE 1024u
#define SIM_RANK_SHIFT  24
#define SIM_LOCAL_BASE  64u

enum sim_kind {
    SIM_SINK, /* _ */
    SIM_REGISTER,
    SIM_IMMEDIATE, /* a number, or the address of a variable */
    SIM_ADDRESS,   /* [base + value] */
    SIM_VECTOR,
    SIM_NAME, /* a function, a label, a list of arguments */
};

#define SIM_NO_REGISTER UINT32_MAX

typedef struct sim_operand {
    uint8_t kind;
    uint8_t width;  /* bits of a register's slot: 1, 32, 64, 128; of an immediate: as it is used */
    uint8_t bits;   /* of a register as it was declared */
    uint8_t bank;   /* 0: the warp's registers, 1: the function's constants */
    uint8_t space;  /* addresses of variables: enum sim_space */
    bool negated;   /* !p */
    bool dynamic;   /* value is to grow by where dynamic shared memory begins */
    uint32_t slot;  /* in 32-bit words; predicates: their number */
    uint32_t reg;   /* register number, for the written masks, or SIM_NO_REGISTER */
    int64_t value;  /* immediate, or offset of an address */
    uint32_t slot2; /* the q of p|q, with reg2 */
    uint32_t reg2;
    uint32_t elements;
    struct sim_operand *element; /* of a vector, or the coordinates of an address */
    const char *name;
} sim_operand;

typedef struct sim_warp sim_warp;
typedef struct sim_insn sim_insn;

/* What became of the group of lanes that ran an instruction. */
enum sim_step {
    SIM_NEXT,  /* on to the next instruction */
    SIM_MOVED, /* the instruction set the program counters itself */
    SIM_YIELD, /* on to the next instruction, in a later slice */
    SIM_RETRY, /* lanes are missing: again when others have come */
    SIM_PARK,  /* an mbarrier's phase is not over: again when it is */
};

typedef enum sim_step sim_exec(sim_warp *warp, const sim_insn *in, uint32_t mask);
typedef uint64_t sim_scalar(const sim_insn *in, uint64_t a, uint64_t b, uint64_t c);

enum sim_need {
    SIM_NEED_NOTHING,
    SIM_NEED_LIVE, /* every lane that has not exited */
    SIM_NEED_ALL,  /* all 32 lanes */
};

struct sim_insn {
    sim_exec *exec;
    sim_scalar *scalar; /* for execs that apply a function lane by lane */
    sim_operand *arg;
    uint32_t *reads, *writes; /* register numbers */
    uint16_t args, read_count, write_count;
    uint8_t type, from;  /* enum sim_type: of the result; of the sources where that differs */
    uint8_t mode, mode2; /* what the class of instructions makes of it */
    uint8_t space, vector;
    uint8_t round;                /* enum sim_round */
    uint8_t result_bits;          /* that lane-by-lane functions are cut to */
    uint8_t need;                 /* enum sim_need */
    bool cluster;                 /* .shared::cluster: another block's memory as well */
    bool ftz, sat, relu, carries; /* carries: uninitialised bits pass through, as in mov */
    bool lanewise; /* a lane's results depend on its registers only: what was never written makes
                      results that were never written */
    bool has_guard, guard_not;
    uint32_t guard, guard_reg; /* predicate slot and register number */
    uint32_t target;           /* of branches and calls; row of a class's table */
    uint32_t *targets;         /* of brx.idx */
    uint32_t target_count;
    const struct sim_callee *callee;
    uint32_t line;
    const char *text;
};

enum sim_round { SIM_RN, SIM_RZ, SIM_RM, SIM_RP, SIM_RNA };

/* A function linked into an entry. There is no recursion, so each has its registers, its local
 * memory and its return addresses once a lane. */
typedef struct sim_callee {
    const struct sim_source *source;
    uint32_t index; /* of the return addresses */
    uint32_t start; /* program counter */
    struct {
        uint32_t local, bytes;
    } param[64], result[4];
    uint32_t params, results;
} sim_callee;

/* Of a function's immediates. */
typedef struct sim_slot {
    uint32_t at, width;
} sim_slot;

typedef struct sim_special {
    uint8_t code; /* enum sim_special_code of special.c */
    uint8_t width;
    uint32_t slot, reg;
} sim_special;

struct sim_function {
    sim_function_info info;
    sim_insn *code;
    uint32_t length;
    uint32_t words;      /* 32-bit words of registers a lane */
    uint32_t registers;  /* numbers given */
    uint32_t predicates; /* numbers given */
    uint32_t *pool;      /* immediates, one value a lane */
    uint32_t pool_words;
    sim_slot *shared_slot; /* those that are addresses of shared memory */
    uint32_t shared_slots;
    uint32_t callees;
    uint32_t dynamic_base; /* offset of dynamic shared memory */
    sim_special special[64];
    uint32_t specials;
    bool has_wgmma;
    uint32_t launch_registers; /* a thread, as the compiler has to assume; 0: it cannot know */
    const sim_module *module;
};

unsigned sim_type_bits(enum sim_type type);
bool sim_type_signed(enum sim_type type);
bool sim_type_float(enum sim_type type);
enum sim_type sim_type_find(const char *name);

/* The variable at an address inside a module, for bounds. */
bool sim_module_range(const sim_module *module, uint64_t address, sim_range *range);

#endif
