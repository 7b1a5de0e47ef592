/* SPDX-License-Identifier: Apache-2.0
 *
 * Ahead-of-time packs: a backend names the images that plans for a description may use, and each is
 * got as a gemm would get it and written once. Looking into packs and the cache is in core/jit.
 */
#include "base/struct.h"
#include "base/text.h"
#include "config/desc.h"
#include "jit/image.h"
#include "jit/pack_write.h"
#include "registry/registry.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 256 };

static nib_status find_compiling(nib_context *ctx, const char *name, const nib_backend **out)
{
    if (!ctx || !name)
        return nib_fail(NIB_INVALID, "the %s is NULL", ctx ? "backend's name" : "context");
    const nib_backend *backend = nib_registry_find(name);
    if (!backend)
        return nib_fail(NIB_MISSING, "no backend '%s' is loaded", name);
    if (!backend->api.isa || !backend->api.images)
        return nib_fail(NIB_UNSUPPORTED, "the backend '%s' has no kernels to compile ahead of time",
                        name);
    *out = backend;
    return NIB_OK;
}

nib_status nib_kernels_isa(nib_context *ctx, const char *backend, uint32_t index, const char **isa)
{
    const nib_backend *found;
    const char *name = NULL;
    nib_status status = find_compiling(ctx, backend, &found);
    if (!status && !isa)
        status = nib_fail(NIB_INVALID, "nib_kernels_isa needs a place for the name");
    if (!status)
        status = found->api.isa(index, &name);
    if (!status && !name)
        status = nib_fail(NIB_MISSING, "backend '%s' has no ISA at that index", backend);
    if (!status)
        *isa = name;
    return status;
}

/* ---- building a pack ---- */

/* Keys by their own first bytes, which are random: open addressing, at most half full. */
typedef struct key_slot {
    nib_key key;
    bool used, claimed;
} key_slot;

typedef struct key_set {
    key_slot *slots;
    size_t room, count; /* room is a power of two */
} key_set;

static key_slot *find_slot(key_set *set, const nib_key *key)
{
    size_t at;
    memcpy(&at, key->bytes, sizeof(at));
    for (at &= set->room - 1;; at = (at + 1) & (set->room - 1))
        if (!set->slots[at].used || nib_key_equal(&set->slots[at].key, key))
            return &set->slots[at];
}

static bool grow_set(key_set *set)
{
    key_set larger = {.room = set->room ? 2 * set->room : 256, .count = set->count};
    larger.slots = calloc(larger.room, sizeof(*larger.slots));
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < set->room; i++)
        if (set->slots[i].used)
            *find_slot(&larger, &set->slots[i].key) = set->slots[i];
    free(set->slots);
    *set = larger;
    return true;
}

/* A description on an ISA. */
typedef struct unit {
    const char *isa;
    const nib_gemm_desc *desc;
    bool refused;
} unit;

typedef struct build {
    const nib_backend *backend;
    nib_pack_options options;
    nib_gemm_desc *descs; /* checked */
    unit *units;
    size_t unit_count;
    nib_pack_writer *writer;
    key_set keys;
    nib_pack_report report;
    pthread_mutex_t lock; /* of what follows, of `keys`' claims, the writer and the report */
    nib_status status;    /* the first failure, which ends all threads */
    char message[NIB_MESSAGE_BYTES];
} build;

static nib_status count_image(void *user, const nib_image_request *request)
{
    build *b = user;
    nib_image_request r;
    nib_key key;
    nib_status status = nib_request_check(request, &r);
    if (!status)
        status = nib_key_of(&r, &key);
    if (!status && 2 * (b->keys.count + 1) > b->keys.room && !grow_set(&b->keys))
        status = nib_fail(NIB_NO_MEMORY, "no memory for the keys of a pack");
    if (status)
        return status;
    key_slot *slot = find_slot(&b->keys, &key);
    b->keys.count += !slot->used;
    *slot = (key_slot){.key = key, .used = true};
    return NIB_OK;
}

/* Asks for the images of every unit, so that their number is known and refusals come first. */
static nib_status count_images(build *b)
{
    char first[NIB_MESSAGE_BYTES] = "there is no description or no ISA";
    for (size_t i = 0; i < b->unit_count; i++) {
        unit *u = &b->units[i];
        nib_status status = b->backend->api.images(u->isa, u->desc, count_image, b);
        if (status && status != NIB_UNSUPPORTED)
            return status;
        u->refused = status != NIB_OK;
        if (!u->refused)
            continue;
        if (!b->report.refused++)
            memcpy(first, nib_last_message(), strlen(nib_last_message()) + 1);
        char line[NIB_DESC_LINE_BYTES];
        char why[NIB_MESSAGE_BYTES];
        memcpy(why, nib_last_message(), strlen(nib_last_message()) + 1);
        if (!nib_gemm_desc_print(u->desc, line, sizeof(line), NULL))
            nib_log(NIB_LOG_WARNING, "no kernel on %s for %s: %s", u->isa, line, why);
    }
    if (!b->keys.count)
        return nib_fail(NIB_UNSUPPORTED, "no kernel to pack: %s", first);
    return NIB_OK;
}

/* Keeps the first failure of any thread; the caller holds the lock. */
static void end_with(build *b, nib_status status)
{
    if (b->status || !status)
        return;
    b->status = status;
    memcpy(b->message, nib_last_message(), strlen(nib_last_message()) + 1);
}

/* Whether this thread is to make the image. */
static bool claim(build *b, const nib_key *key, const char *label)
{
    pthread_mutex_lock(&b->lock);
    key_slot *slot = find_slot(&b->keys, key);
    bool ours = !b->status && slot->used && !slot->claimed;
    slot->claimed = slot->claimed || ours;
    if (ours && b->options.progress) {
        end_with(b, b->options.progress(b->options.user, b->report.images, (int64_t)b->keys.count,
                                        label));
        ours = !b->status;
    }
    pthread_mutex_unlock(&b->lock);
    return ours;
}

static nib_status make_image(void *user, const nib_image_request *request)
{
    build *b = user;
    nib_image_request r;
    nib_image image;
    nib_key key;
    nib_status status = nib_request_check(request, &r);
    if (!status)
        status = nib_key_of(&r, &key);
    if (!status && !claim(b, &key, r.label))
        return NIB_OK;
    if (!status)
        status = nib_image_get(&r, &image);
    pthread_mutex_lock(&b->lock);
    if (!status) {
        if (!b->status)
            status = nib_pack_writer_add(b->writer, &r, &key, image.owner);
        b->report.images++;
        b->report.compiled += image.origin == NIB_IMAGE_COMPILED;
        nib_image_put(&image);
    }
    end_with(b, status);
    pthread_mutex_unlock(&b->lock);
    return status;
}

/* Every thread walks all units and takes the images that nobody has: naming them is cheap, and so
 * few descriptions with many images keep all threads busy too. */
static void *work(void *user)
{
    build *b = user;
    for (size_t i = 0; i < b->unit_count; i++) {
        if (b->units[i].refused)
            continue;
        nib_status status =
            b->backend->api.images(b->units[i].isa, b->units[i].desc, make_image, b);
        pthread_mutex_lock(&b->lock);
        end_with(b, status);
        bool ended = b->status != NIB_OK;
        pthread_mutex_unlock(&b->lock);
        if (ended)
            break;
    }
    return NULL;
}

static int processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
}

static nib_status make_images(build *b)
{
    pthread_t threads[MAX_THREADS];
    int wanted = b->options.threads ? b->options.threads : processors(), started = 0;
    if (wanted > MAX_THREADS)
        wanted = MAX_THREADS;
    if ((size_t)wanted > b->keys.count)
        wanted = (int)b->keys.count;
    while (started + 1 < wanted && !pthread_create(&threads[started], NULL, work, b))
        started++;
    work(b);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return b->status ? nib_fail(b->status, "%s", b->message) : NIB_OK;
}

/* ---- options ---- */

static nib_status check_isa(const nib_backend *backend, const char *isa)
{
    char known[512];
    nib_text text = nib_text_into(known, sizeof(known));
    const char *name;
    for (uint32_t i = 0; !backend->api.isa(i, &name) && name; i++) {
        if (isa && !strcmp(name, isa))
            return NIB_OK;
        nib_text_add(&text, "%s%s", i ? ", " : "", name);
    }
    return nib_fail(NIB_INVALID, "backend '%s' does not compile for '%s': it knows %s",
                    backend->api.name, isa ? isa : "NULL", known);
}

static nib_status check_options(const nib_pack_options *o)
{
    if (o->threads < 0)
        return nib_fail(NIB_INVALID, "threads is %d, expected 0 or more", o->threads);
    if (!o->isas || !o->isa_count)
        return nib_fail(NIB_INVALID, "no ISA is given to compile for");
    if (!o->descs || !o->desc_count)
        return nib_fail(NIB_INVALID, "no description is given to compile for");
    if (o->desc_count > SIZE_MAX / sizeof(nib_gemm_desc) ||
        o->isa_count > SIZE_MAX / sizeof(unit) / o->desc_count)
        return nib_fail(NIB_INVALID, "there are too many descriptions or ISAs");
    return NIB_OK;
}

static nib_status prepare(build *b)
{
    const nib_pack_options *o = &b->options;
    nib_status status = NIB_OK;
    b->descs = calloc(o->desc_count, sizeof(*b->descs));
    b->units = calloc(o->desc_count * o->isa_count, sizeof(*b->units));
    if (!b->descs || !b->units)
        return nib_fail(NIB_NO_MEMORY, "no memory for %zu descriptions", o->desc_count);
    for (size_t i = 0; i < o->isa_count && !status; i++)
        status = check_isa(b->backend, o->isas[i]);
    for (size_t i = 0; i < o->desc_count && !status; i++) {
        b->descs[i].size = sizeof(b->descs[i]);
        status = nib_gemm_desc_check(&o->descs[i], &b->descs[i]);
        if (status)
            nib_fail_within(status, "description %zu", i);
    }
    for (size_t i = 0; i < o->isa_count && !status; i++)
        for (size_t d = 0; d < o->desc_count; d++)
            b->units[b->unit_count++] = (unit){.isa = o->isas[i], .desc = &b->descs[d]};
    return status;
}

nib_status nib_pack_build(nib_context *ctx, const nib_pack_options *options, const char *path,
                          nib_pack_report *report)
{
    build b = {.report = {.size = sizeof(b.report)}, .lock = PTHREAD_MUTEX_INITIALIZER};
    nib_status status = nib_struct_read(&b.options, sizeof(b.options), options, sizeof(b.options),
                                        "nib_pack_options");
    if (!status && !path)
        status = nib_fail(NIB_INVALID, "nib_pack_build: path is NULL");
    if (!status)
        status = find_compiling(ctx, b.options.backend, &b.backend);
    if (!status)
        status = check_options(&b.options);
    if (!status)
        status = prepare(&b);
    if (!status)
        status = count_images(&b);
    if (!status)
        status = nib_pack_writer_create(path, b.backend->api.name, &b.writer);
    if (!status)
        status = make_images(&b);
    if (!status) {
        status = nib_pack_writer_finish(b.writer, &b.report.bytes);
        b.writer = NULL;
    }
    if (!status && report)
        status = nib_struct_write(report, &b.report, sizeof(b.report), sizeof(b.report),
                                  "nib_pack_report");
    nib_pack_writer_discard(b.writer);
    free(b.keys.slots);
    free(b.units);
    free(b.descs);
    return status;
}
