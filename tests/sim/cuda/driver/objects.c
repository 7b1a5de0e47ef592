/* SPDX-License-Identifier: Apache-2.0
 *
 * The register of handles: a hash set of every object that was ever handed out, so that a stale or
 * invented handle is an error code and not a crash. Called under the lock.
 */
#include "state.h"

#include <stdlib.h>

static drv_object **slots;
static size_t slot_count, used;

static size_t slot_of(const void *handle, size_t count)
{
    return (size_t)(((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15u) & (count - 1);
}

static void insert(drv_object **into, size_t count, drv_object *object)
{
    size_t at = slot_of(object, count);
    while (into[at])
        at = (at + 1) & (count - 1);
    into[at] = object;
}

static bool grow(void)
{
    size_t count = slot_count ? 2 * slot_count : 1024;
    drv_object **larger = calloc(count, sizeof(*larger));
    if (!larger)
        return false;
    for (size_t i = 0; i < slot_count; i++) {
        if (slots[i])
            insert(larger, count, slots[i]);
    }
    free(slots);
    slots = larger;
    slot_count = count;
    return true;
}

void *drv_object_create(drv_kind kind, size_t bytes)
{
    if (2 * (used + 1) > slot_count && !grow())
        return NULL;
    drv_object *object = calloc(1, bytes);
    if (!object)
        return NULL;
    object->kind = kind;
    object->alive = true;
    insert(slots, slot_count, object);
    used++;
    return object;
}

static const drv_object *find(const void *handle)
{
    if (!handle || !slot_count)
        return NULL;
    size_t at = slot_of(handle, slot_count);
    while (slots[at] && (const void *)slots[at] != handle)
        at = (at + 1) & (slot_count - 1);
    return slots[at];
}

bool drv_object_known(const void *handle, drv_kind kind)
{
    const drv_object *object = find(handle);
    return object && object->kind == kind;
}

bool drv_object_alive(const void *handle, drv_kind kind)
{
    const drv_object *object = find(handle);
    return object && object->kind == kind && object->alive;
}
