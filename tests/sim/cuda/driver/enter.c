/* SPDX-License-Identifier: Apache-2.0
 *
 * The way in and out of the simulated driver: cuInit, the lock, the settings of the environment,
 * and reports. Everything else begins with drv_enter.
 */
#include "state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

drv_settings drv_options;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
/* Of the process that called cuInit. A child of it has the state but no device, as with the real
 * driver. */
static pid_t owner;
static uint64_t random_state;

CUresult drv_devices_create(void);

uint64_t drv_thread_id(void)
{
    return (uint64_t)syscall(SYS_gettid);
}

uint64_t drv_random(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void read_settings(void)
{
    const char *report = getenv("NIB_SIM_REPORT");
    drv_options.cc = (int)number("NIB_SIM_CC", 80);
    drv_options.devices = (int)number("NIB_SIM_DEVICES", 1);
    drv_options.threads = (int)number("NIB_SIM_THREADS", 1);
    drv_options.lazy = number("NIB_SIM_LAZY", 0) != 0;
    drv_options.races = number("NIB_SIM_RACES", 1) != 0;
    drv_options.trace = number("NIB_SIM_TRACE", 0) != 0;
    drv_options.seed = number("NIB_SIM_SEED", 1);
    drv_options.memory = number("NIB_SIM_MEMORY", 4096) << 20;
    snprintf(drv_options.report, sizeof(drv_options.report), "%s", report ? report : "");
    if (drv_options.devices > DRV_MAX_DEVICES)
        drv_options.devices = DRV_MAX_DEVICES;
    random_state = drv_options.seed;
}

SIM_API CUresult cuInit(unsigned int flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (owner && owner != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&lock);
    CUresult result = CUDA_SUCCESS;
    if (!owner) {
        read_settings();
        result = drv_options.devices ? drv_devices_create() : CUDA_ERROR_NO_DEVICE;
        if (!result)
            owner = getpid();
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult drv_enter_any(void)
{
    if (!owner || owner != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&lock);
    return CUDA_SUCCESS;
}

CUresult drv_enter(CUcontext *current)
{
    CUresult result = drv_enter_any();
    if (result)
        return result;
    CUcontext ctx = drv_current();
    if (!ctx)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (!ctx->object.alive)
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    else
        result = ctx->fault;
    if (result)
        pthread_mutex_unlock(&lock);
    else
        *current = ctx;
    return result;
}

CUresult drv_leave(CUresult result)
{
    CUcontext ctx = drv_current();
    if (ctx && ctx->object.alive && !drv_options.lazy)
        drv_progress(ctx);
    pthread_mutex_unlock(&lock);
    return result;
}

void drv_unlock_for_callback(void)
{
    pthread_mutex_unlock(&lock);
}

void drv_lock_after_callback(void)
{
    pthread_mutex_lock(&lock);
}

void drv_wait_for_change(void)
{
    pthread_cond_wait(&change, &lock);
}

void drv_tell_change(void)
{
    pthread_cond_broadcast(&change);
}

void drv_report(const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fprintf(stderr, "simulator: %s\n", text);
    if (!drv_options.report[0])
        return;
    FILE *file = fopen(drv_options.report, "a");
    if (file) {
        fprintf(file, "%s\n", text);
        fclose(file);
    }
}
