/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptions as one line of key=value fields, and back. The tables below are the grammar: a key's
 * values by name. docs/formats.md repeats it for readers.
 */
#include "base/text.h"
#include "config/desc.h"
#include "config/dtype.h"

#include <inttypes.h>
#include <string.h>

typedef struct name_value {
    const char *name;
    int64_t value;
} name_value;

/* Each list ends with a NULL name. */
static const name_value zero_names[] = {{"none", NIB_ZERO_NONE},
                                        {"float", NIB_ZERO_FLOAT},
                                        {"rescale", NIB_ZERO_RESCALE},
                                        {"code", NIB_ZERO_CODE},
                                        {NULL, 0}};
static const name_value group_names[] = {
    {"row", NIB_GROUP_ROW}, {"tensor", NIB_GROUP_TENSOR}, {NULL, 0}};
static const name_value act_scale_names[] = {{"none", NIB_ACT_SCALE_NONE},
                                             {"tensor", NIB_ACT_SCALE_TENSOR},
                                             {"row", NIB_ACT_SCALE_ROW},
                                             {"mx", NIB_ACT_SCALE_MX},
                                             {NULL, 0}};
static const name_value epilogue_names[] = {{"none", NIB_EPILOGUE_NONE},
                                            {"relu", NIB_EPILOGUE_RELU},
                                            {"gelu", NIB_EPILOGUE_GELU},
                                            {"silu", NIB_EPILOGUE_SILU},
                                            {"silu_gated", NIB_EPILOGUE_SILU_GATED},
                                            {NULL, 0}};
static const name_value weight_flag_names[] = {{"g_idx", NIB_WEIGHT_G_IDX}, {NULL, 0}};
static const name_value gemm_flag_names[] = {{"batch_invariant", NIB_GEMM_BATCH_INVARIANT},
                                             {"nondeterministic", NIB_GEMM_ALLOW_NONDETERMINISTIC},
                                             {"act_dynamic_i8", NIB_GEMM_ACT_DYNAMIC_I8},
                                             {"exact_weights", NIB_GEMM_EXACT_WEIGHTS},
                                             {NULL, 0}};

static const char *name_of(const name_value *list, int64_t value)
{
    for (; list->name; list++)
        if (list->value == value)
            return list->name;
    return "?";
}

static bool value_of(const name_value *list, const char *name, size_t length, int64_t *out)
{
    for (; list->name; list++)
        if (strlen(list->name) == length && !memcmp(list->name, name, length)) {
            *out = list->value;
            return true;
        }
    return false;
}

static nib_status bad_value(const nib_field *field, const name_value *list)
{
    char names[160];
    nib_text text = nib_text_into(names, sizeof(names));
    for (const name_value *row = list; row->name; row++)
        nib_text_add(&text, "%s%s", row == list ? "" : ", ", row->name);
    return nib_fail(NIB_INVALID, "column %d: %s=%s, expected one of %s", field->column, field->key,
                    field->value, names);
}

static void print_flags(nib_text *text, const char *key, const name_value *list, uint32_t flags)
{
    const char *lead = key;
    for (; list->name; list++)
        if (flags & (uint32_t)list->value) {
            nib_text_add(text, lead == key ? " %s=%s" : "%s%s", lead == key ? key : ",",
                         list->name);
            lead = ",";
        }
}

static nib_status parse_flags(const nib_field *field, const name_value *list, uint32_t *out)
{
    uint32_t flags = 0;
    for (const char *at = field->value;;) {
        size_t length = strcspn(at, ",");
        int64_t bit;
        if (!value_of(list, at, length, &bit))
            return bad_value(field, list);
        flags |= (uint32_t)bit;
        if (!at[length])
            break;
        at += length + 1;
    }
    *out = flags;
    return NIB_OK;
}

static nib_status parse_name(const nib_field *field, const name_value *list, int32_t *out)
{
    int64_t value;
    if (!value_of(list, field->value, strlen(field->value), &value))
        return bad_value(field, list);
    *out = (int32_t)value;
    return NIB_OK;
}

static nib_status parse_type(const nib_field *field, const char *name, nib_type *out)
{
    nib_status status = nib_type_parse(name, out);
    return status ? nib_fail_within(status, "column %d: %s=%s", field->column, field->key,
                                    field->value)
                  : NIB_OK;
}

static nib_status parse_extent(const nib_field *field, int64_t *out)
{
    if (!nib_parse_int(field->value, out))
        return nib_fail(NIB_INVALID, "column %d: %s=%s is no whole number of 63 bits",
                        field->column, field->key, field->value);
    return NIB_OK;
}

/* "none", "code", "float:f16", "rescale:bf16". */
static nib_status parse_zero(const nib_field *field, nib_weight_desc *desc)
{
    int64_t mode;
    size_t length = strcspn(field->value, ":");
    if (!value_of(zero_names, field->value, length, &mode))
        return bad_value(field, zero_names);
    desc->zero = (nib_zero)mode;
    if (!field->value[length])
        return NIB_OK;
    return parse_type(field, field->value + length + 1, &desc->zero_type);
}

/* Takes a field that belongs to a weight line; `taken` is false for other keys. */
static nib_status parse_weight_field(const nib_field *field, nib_weight_desc *desc, bool *taken)
{
    int64_t group;
    *taken = true;
    if (!strcmp(field->key, "n"))
        return parse_extent(field, &desc->n);
    if (!strcmp(field->key, "k"))
        return parse_extent(field, &desc->k);
    if (!strcmp(field->key, "w"))
        return parse_type(field, field->value, &desc->type);
    if (!strcmp(field->key, "s"))
        return parse_type(field, field->value, &desc->scale_type);
    if (!strcmp(field->key, "z"))
        return parse_zero(field, desc);
    if (!strcmp(field->key, "wf"))
        return parse_flags(field, weight_flag_names, &desc->flags);
    if (!strcmp(field->key, "g")) {
        if (!value_of(group_names, field->value, strlen(field->value), &group) &&
            (!nib_parse_int(field->value, &group) || group < 1))
            return nib_fail(NIB_INVALID, "column %d: g=%s, expected a number from 1, row or tensor",
                            field->column, field->value);
        desc->group = group;
        return NIB_OK;
    }
    *taken = false;
    return NIB_OK;
}

static nib_status parse_gemm_field(const nib_field *field, nib_gemm_desc *desc, bool *taken)
{
    *taken = true;
    if (!strcmp(field->key, "a"))
        return parse_type(field, field->value, &desc->act_type);
    if (!strcmp(field->key, "acc"))
        return parse_type(field, field->value, &desc->acc_type);
    if (!strcmp(field->key, "o"))
        return parse_type(field, field->value, &desc->out_type);
    if (!strcmp(field->key, "b"))
        return parse_type(field, field->value, &desc->bias_type);
    if (!strcmp(field->key, "as"))
        return parse_name(field, act_scale_names, &desc->act_scale);
    if (!strcmp(field->key, "e"))
        return parse_name(field, epilogue_names, &desc->epilogue);
    if (!strcmp(field->key, "f"))
        return parse_flags(field, gemm_flag_names, &desc->flags);
    return parse_weight_field(field, &desc->weight, taken);
}

/* Defaults of a line: what most checkpoints hold. n and k have none. */
static nib_gemm_desc defaults(void)
{
    return (nib_gemm_desc){
        .size = sizeof(nib_gemm_desc),
        .act_type = NIB_F16,
        .weight = {.size = sizeof(nib_weight_desc),
                   .type = NIB_I4,
                   .group = NIB_GROUP_ROW,
                   .scale_type = NIB_F16},
    };
}

/* Known keys have at most three letters, and there are fewer than this. */
enum { MAX_KEYS = 16 };

/* Whether a known key was there before; notes it. */
static bool repeated(char keys[MAX_KEYS][4], int *count, const char *key)
{
    for (int i = 0; i < *count; i++)
        if (!strcmp(keys[i], key))
            return true;
    strcpy(keys[(*count)++], key);
    return false;
}

static nib_status parse_line(const char *line, bool gemm, nib_gemm_desc *out)
{
    nib_gemm_desc desc = defaults();
    char keys[MAX_KEYS][4];
    int count = 0;
    if (!line)
        return nib_fail(NIB_INVALID, "the description line is NULL");
    for (const char *cursor = line;;) {
        nib_field field;
        bool found, taken;
        nib_status status = nib_field_next(line, &cursor, &field, &found);
        if (status)
            return status;
        if (!found)
            break;
        status = gemm ? parse_gemm_field(&field, &desc, &taken)
                      : parse_weight_field(&field, &desc.weight, &taken);
        if (status)
            return status;
        if (!taken)
            return nib_fail(NIB_INVALID, "column %d: unknown key '%s'; known are n k w g s z wf%s",
                            field.column, field.key, gemm ? " a acc o as b e f" : "");
        if (repeated(keys, &count, field.key))
            return nib_fail(NIB_INVALID, "column %d: key '%s' stands twice", field.column,
                            field.key);
    }
    *out = desc;
    return NIB_OK;
}

nib_status nib_weight_desc_parse(const char *line, nib_weight_desc *desc)
{
    nib_gemm_desc parsed;
    nib_status status = parse_line(line, false, &parsed);
    return status ? status : nib_weight_desc_check(&parsed.weight, desc);
}

nib_status nib_gemm_desc_parse(const char *line, nib_gemm_desc *desc)
{
    nib_gemm_desc parsed;
    nib_status status = parse_line(line, true, &parsed);
    return status ? status : nib_gemm_desc_check(&parsed, desc);
}

static void print_weight(nib_text *text, const nib_weight_desc *d)
{
    nib_text_add(text, "n=%" PRId64 " k=%" PRId64 " w=%s", d->n, d->k, nib_type_name(d->type));
    if (d->group > 0)
        nib_text_add(text, " g=%" PRId64, d->group);
    else
        nib_text_add(text, " g=%s", name_of(group_names, d->group));
    nib_text_add(text, " s=%s z=%s", nib_type_name(d->scale_type), name_of(zero_names, d->zero));
    if (d->zero_type)
        nib_text_add(text, ":%s", nib_type_name(d->zero_type));
    print_flags(text, "wf", weight_flag_names, d->flags);
}

nib_status nib_weight_desc_print(const nib_weight_desc *desc, char *out, size_t capacity,
                                 size_t *needed)
{
    nib_weight_desc d;
    nib_status status = nib_weight_desc_check(desc, &d);
    if (status)
        return status;
    nib_text text = nib_text_into(out, capacity);
    print_weight(&text, &d);
    nib_text_end(&text, needed);
    return NIB_OK;
}

nib_status nib_gemm_desc_print(const nib_gemm_desc *desc, char *out, size_t capacity,
                               size_t *needed)
{
    nib_gemm_desc d;
    nib_status status = nib_gemm_desc_check(desc, &d);
    if (status)
        return status;
    nib_text text = nib_text_into(out, capacity);
    print_weight(&text, &d.weight);
    nib_text_add(&text, " a=%s acc=%s o=%s", nib_type_name(d.act_type), nib_type_name(d.acc_type),
                 nib_type_name(d.out_type));
    if (d.act_scale)
        nib_text_add(&text, " as=%s", name_of(act_scale_names, d.act_scale));
    if (d.bias_type)
        nib_text_add(&text, " b=%s", nib_type_name(d.bias_type));
    if (d.epilogue)
        nib_text_add(&text, " e=%s", name_of(epilogue_names, d.epilogue));
    print_flags(&text, "f", gemm_flag_names, d.flags);
    nib_text_end(&text, needed);
    return NIB_OK;
}
