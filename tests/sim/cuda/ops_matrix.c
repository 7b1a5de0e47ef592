/* SPDX-License-Identifier: Apache-2.0
 *
 * ldmatrix, stmatrix, movmatrix: 8 x 8 matrices of 16 bits between shared memory and the lanes of a
 * warp. Lane 4r+c holds row r, columns 2c and 2c+1; transposed, rows and columns change places. PTX
 * ISA, "ldmatrix".
 */
#include "decode.h"
#include "machine.h"

enum { MATRIX = 8, MOST = 4 };

/* Element (row, column) of a matrix inside the 32 words of the lanes: half a word. */
typedef struct place {
    int word, shift;
} place;

static place place_of(int row, int column, bool transposed)
{
    const int r = transposed ? column : row, c = transposed ? row : column;
    return (place){r * 4 + c / 2, 16 * (c & 1)};
}

static uint16_t get_cell(const uint32_t *lanes, int row, int column, bool transposed)
{
    const place at = place_of(row, column, transposed);
    return (uint16_t)(lanes[at.word] >> at.shift);
}

static void put_cell(uint32_t *lanes, int row, int column, bool transposed, uint16_t value)
{
    const place at = place_of(row, column, transposed);
    lanes[at.word] &= ~(UINT32_C(0xffff) << at.shift);
    lanes[at.word] |= (uint32_t)value << at.shift;
}

static enum sim_step exec_load(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const sim_operand *to = &in->arg[0];
    uint32_t lanes[MOST][SIM_LANES] = {{0}};
    for (int i = 0; i < in->vector; ++i) {
        for (int row = 0; row < MATRIX; ++row) {
            const int lane = i * MATRIX + row;
            uint16_t values[MATRIX];
            const uint8_t *from =
                sim_reach(warp, in, lane, (enum sim_space)in->space,
                          sim_address(warp, &in->arg[1], lane), sizeof values, SIM_READS);
            if (from == NULL) {
                return SIM_NEXT;
            }
            memcpy(values, from, sizeof values);
            for (int column = 0; column < MATRIX; ++column) {
                put_cell(lanes[i], row, column, in->mode != 0, values[column]);
            }
        }
    }
    for (uint32_t i = 0; i < in->vector; ++i) {
        sim_put32(warp, in->vector == 1 && to->kind != SIM_VECTOR ? to : &to->element[i], mask,
                  lanes[i]);
    }
    return SIM_NEXT;
}

static enum sim_step exec_store(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    const sim_operand *from = &in->arg[1];
    (void)mask;
    for (int i = 0; i < in->vector; ++i) {
        uint64_t wide[SIM_LANES];
        uint32_t lanes[SIM_LANES];
        sim_values(warp, from->kind == SIM_VECTOR ? &from->element[i] : from, wide);
        for (int lane = 0; lane < SIM_LANES; ++lane) {
            lanes[lane] = (uint32_t)wide[lane];
        }
        for (int row = 0; row < MATRIX; ++row) {
            const int lane = i * MATRIX + row;
            uint16_t values[MATRIX];
            uint8_t *to =
                sim_reach(warp, in, lane, (enum sim_space)in->space,
                          sim_address(warp, &in->arg[0], lane), sizeof values, SIM_WRITES);
            if (to == NULL) {
                return SIM_NEXT;
            }
            for (int column = 0; column < MATRIX; ++column) {
                values[column] = get_cell(lanes, row, column, in->mode != 0);
            }
            memcpy(to, values, sizeof values);
        }
    }
    return SIM_NEXT;
}

static enum sim_step exec_move(sim_warp *warp, const sim_insn *in, uint32_t mask)
{
    uint32_t from[SIM_LANES], to[SIM_LANES] = {0};
    memcpy(from, sim_row32(warp, &in->arg[1]), sizeof from);
    for (int row = 0; row < MATRIX; ++row) {
        for (int column = 0; column < MATRIX; ++column) {
            put_cell(to, row, column, true, get_cell(from, row, column, false));
        }
    }
    sim_put32(warp, &in->arg[0], mask, to);
    return SIM_NEXT;
}

static bool registers32(const sim_operand *o, unsigned count)
{
    if (o->kind != SIM_VECTOR) {
        return count == 1 && o->width == 32;
    }
    for (uint32_t i = 0; i < o->elements; ++i) {
        if (o->element[i].kind != SIM_REGISTER || o->element[i].width != 32) {
            return false;
        }
    }
    return o->elements == count;
}

bool sim_decode_matrix(sim_linker *linker, sim_insn *in)
{
    static const char *const counts[] = {"x1", "x2", "x4", NULL};
    static const char *const spaces[] = {"shared", "shared::cta", NULL};
    const char root = linker->part[0][0];
    const bool form =
        sim_take(linker, "sync") && sim_take(linker, "aligned") && sim_take(linker, "m8n8");
    const int count = sim_take_of(linker, counts), space = sim_take_of(linker, spaces);
    in->mode = sim_take(linker, "trans");
    in->type = (uint8_t)sim_take_type(linker);
    in->need = SIM_NEED_ALL;
    in->space = space < 0 ? SIM_SPACE_GENERIC : SIM_SPACE_SHARED;
    if (!form || in->type != SIM_B16) {
        return false;
    }
    in->type = SIM_B32;
    if (root == 'm') {
        in->exec = exec_move;
        return in->mode != 0 && sim_operands(linker, in, "ds");
    }
    in->vector = (uint8_t)(count < 0 ? 0 : 1 << count);
    in->exec = root == 'l' ? exec_load : exec_store;
    if (in->args != 2 || in->vector == 0 ||
        !registers32(&in->arg[root == 'l' ? 0 : 1], in->vector)) {
        return false;
    }
    const bool vector = in->arg[root == 'l' ? 0 : 1].kind == SIM_VECTOR;
    return sim_operands(linker, in, root == 'l' ? (vector ? "vm" : "dm") : (vector ? "mV" : "ms"));
}
