/* SPDX-License-Identifier: Apache-2.0
 *
 * Where images come from: packs, then the cache, then the compiler. Threads of this process that
 * ask for the same image while one looks for it wait for that one and share what it gets, so that
 * this holds without a cache too.
 */
#include "jit/image.h"

#include "base/status.h"
#include "base/struct.h"
#include "jit/cache.h"
#include "jit/packs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A search that runs. It lives on the stack of the thread that runs it, which returns only when all
 * who joined have read the result. */
typedef struct search {
    nib_key key;
    const nib_image_request *request;
    int joined;
    bool done;
    nib_status status;
    nib_blob *blob;
    char message[NIB_MESSAGE_BYTES];
    struct search *next;
} search;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static search *running;

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* Whether two requests for a key get the same: both with the same compiler or both with none. */
static bool alike(const nib_image_request *a, const nib_image_request *b)
{
    const char *ours = a->compiler_path ? a->compiler_path : "";
    const char *theirs = b->compiler_path ? b->compiler_path : "";
    return !a->compile == !b->compile && !strcmp(ours, theirs);
}

static search *find_running(const nib_key *key, const nib_image_request *request)
{
    for (search *s = running; s; s = s->next)
        if (nib_key_equal(&s->key, key) && alike(s->request, request))
            return s;
    return NULL;
}

static nib_status search_everywhere(const nib_image_request *request, const nib_key *key,
                                    nib_blob **out)
{
    nib_status status = nib_packs_find(request->backend, key, out);
    return status == NIB_MISSING ? nib_cache_get(request, key, out) : status;
}

/* Waits for a search of another thread. The caller holds the lock. */
static nib_status join(search *other, nib_blob **out)
{
    other->joined++;
    while (!other->done)
        pthread_cond_wait(&changed, &lock);
    nib_status status = other->status;
    if (status) {
        nib_fail(status, "%s", other->message);
    } else {
        nib_blob_hold(other->blob);
        *out = other->blob;
    }
    other->joined--;
    pthread_cond_broadcast(&changed);
    return status;
}

static nib_status get(const nib_image_request *request, const nib_key *key, nib_blob **out)
{
    search own = {.key = *key, .request = request};
    pthread_mutex_lock(&lock);
    search *other = find_running(key, request);
    if (other) {
        nib_status status = join(other, out);
        pthread_mutex_unlock(&lock);
        return status;
    }
    own.next = running;
    running = &own;
    pthread_mutex_unlock(&lock);

    own.status = search_everywhere(request, key, &own.blob);

    pthread_mutex_lock(&lock);
    if (own.status)
        memcpy(own.message, nib_last_message(), strlen(nib_last_message()) + 1);
    own.done = true;
    for (search **at = &running; *at; at = &(*at)->next)
        if (*at == &own) {
            *at = own.next;
            break;
        }
    pthread_cond_broadcast(&changed);
    while (own.joined)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    if (!own.status)
        *out = own.blob;
    return own.status;
}

nib_status nib_image_get(const nib_image_request *request, nib_image *out)
{
    nib_image_request r;
    nib_key key;
    nib_blob *blob = NULL;
    double begun = now_us();
    nib_status status = nib_request_check(request, &r);
    if (!status && !out)
        status = nib_fail(NIB_INVALID, "image_get needs a place for the image");
    if (!status)
        status = nib_key_of(&r, &key);
    if (!status)
        status = get(&r, &key, &blob);
    if (status)
        return status;
    *out = (nib_image){
        .size = sizeof(*out),
        .origin = blob->origin,
        .data = blob->data,
        .bytes = blob->bytes,
        .us = now_us() - begun,
        .path = blob->path,
        .owner = blob,
    };
    /* `nib gemm --time` adds up lines of this form. */
    static const char *const origins[] = {"image", "pack", "cache", "compiler"};
    nib_log(NIB_LOG_DEBUG, "timed: %s %.0f us %s for %s", origins[out->origin], out->us, r.label,
            r.isa);
    return NIB_OK;
}

void nib_image_put(nib_image *image)
{
    if (!image)
        return;
    nib_blob_drop(image->owner);
    memset(image, 0, sizeof(*image));
}

nib_status nib_image_find(const nib_image_request *request, nib_image_origin *origin)
{
    nib_image_request r;
    nib_key key;
    nib_blob *blob = NULL;
    nib_status status = nib_request_check(request, &r);
    if (!status && !origin)
        status = nib_fail(NIB_INVALID, "image_find needs a place for the origin");
    if (!status)
        status = nib_key_of(&r, &key);
    if (status)
        return status;
    status = nib_packs_find(r.backend, &key, &blob);
    if (status == NIB_MISSING)
        status = nib_cache_find(&r, &key, &blob);
    if (!status)
        *origin = blob->origin;
    nib_blob_drop(blob);
    return status;
}
