/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of the registry: which backends come in, and with which words the others are refused.
 */
#include "base/status.h"
#include "registry/device.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLUGINS NIB_BINARY_DIR "/lib/test-backends"

/* Tables are made from the null plugin's by breaking one thing. */
static nib_backend_api table;

static nib_status give_table(const nib_host_api *host, const nib_backend_api **out)
{
    (void)host;
    *out = &table;
    return NIB_OK;
}

static nib_status give_nothing(const nib_host_api *host, const nib_backend_api **out)
{
    (void)host, (void)out;
    return NIB_OK;
}

static nib_status give_failure(const nib_host_api *host, const nib_backend_api **out)
{
    (void)out;
    return host->fail(NIB_MISSING, "no driver here");
}

static void load(void)
{
    cr_assert_eq(nib_registry_load(PLUGINS), NIB_OK, "%s", nib_last_message());
    const nib_backend *null = nib_registry_find("null");
    cr_assert(null);
    table = null->api;
    table.name = "other";
}

static void expect_refused(nib_backend_entry_fn entry, const char *part)
{
    cr_expect_neq(nib_registry_add(entry, "a test"), NIB_OK);
    cr_expect(strstr(nib_last_message(), part), "'%s' lacks '%s'", nib_last_message(), part);
}

TestSuite(registry, .init = load);

Test(registry, takes_a_whole_table)
{
    cr_expect_eq(nib_registry_add(give_table, "a test"), NIB_OK, "%s", nib_last_message());
    cr_expect(nib_registry_find("other"));
}

Test(registry, refuses_another_major)
{
    table.abi_major++;
    expect_refused(give_table, "backend ABI");
}

Test(registry, refuses_a_table_without_the_mandatory_part)
{
    table.size = NIB_BACKEND_MANDATORY_BYTES - 8;
    expect_refused(give_table, "mandatory");
}

Test(registry, reads_absent_entries_of_an_older_table_as_null)
{
    table.size = NIB_BACKEND_MANDATORY_BYTES;
    table.explain = (void *)&table;
    cr_expect_eq(nib_registry_add(give_table, "a test"), NIB_OK, "%s", nib_last_message());
    cr_expect(nib_registry_find("other")->api.explain == NULL);
}

Test(registry, refuses_a_missing_entry_by_name)
{
    table.launch = NULL;
    expect_refused(give_table, "'launch' is NULL");
}

Test(registry, refuses_a_name_twice)
{
    table.name = "null";
    expect_refused(give_table, "there already");
}

Test(registry, refuses_names_a_selector_cannot_hold)
{
    static const char *const names[] = {NULL, "", "a:b", "a b", "sixteen-letters!"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        table.name = names[i];
        expect_refused(give_table, "its name");
    }
}

Test(registry, refuses_entries_that_give_nothing)
{
    expect_refused(give_nothing, "gave no table");
    expect_refused(give_failure, "no driver here");
}

Test(registry, opens_each_plugin_once)
{
    cr_assert_eq(nib_registry_load(PLUGINS), NIB_OK);
    int nulls = 0;
    const nib_backend *backend;
    for (uint32_t i = 0; (backend = nib_registry_get(i)) != NULL; i++)
        nulls += !strcmp(backend->api.name, "null");
    cr_expect_eq(nulls, 1);
}

Test(registry, says_which_folder_it_cannot_read)
{
    cr_expect_eq(nib_registry_load("/nonexistent-folder"), NIB_MISSING);
    cr_expect(strstr(nib_last_message(), "/nonexistent-folder"));
}

static void count_refusals(void *user, nib_log_level level, const char *message)
{
    *(int *)user += level == NIB_LOG_WARNING && strstr(message, "not a regular file");
}

Test(registry, a_fifo_or_folder_is_no_plugin_and_is_not_waited_for)
{
    char folder[] = "/tmp/nib-registry-XXXXXX", fifo[64], inner[64];
    int refused = 0;
    nib_log_sink sink = {.log = count_refusals, .user = &refused};
    cr_assert(mkdtemp(folder));
    snprintf(fifo, sizeof(fifo), "%s/libnibblas-fifo.so", folder);
    snprintf(inner, sizeof(inner), "%s/libnibblas-folder.so", folder);
    cr_assert(!mkfifo(fifo, 0600) && !mkdir(inner, 0700));
    nib_log_add(&sink);
    alarm(10);
    cr_expect_eq(nib_registry_load(folder), NIB_OK);
    alarm(0);
    nib_log_remove(&sink);
    cr_expect_eq(refused, 2);
    unlink(fifo);
    rmdir(inner);
    rmdir(folder);
}

static nib_context *context(void)
{
    nib_context *ctx = NULL;
    nib_context_options options = {.size = sizeof(options), .backend_path = PLUGINS};
    cr_assert_eq(nib_context_create(&options, &ctx), NIB_OK, "%s", nib_last_message());
    return ctx;
}

static void expect_open(nib_context *ctx, const char *selector, nib_status status, const char *part)
{
    nib_device *dev = NULL;
    cr_expect_eq(nib_device_open(ctx, selector, &dev), status, "%s", selector);
    if (status) {
        cr_expect_null(dev);
        cr_expect(strstr(nib_last_message(), part), "'%s' lacks '%s'", nib_last_message(), part);
    } else {
        nib_device_info info = {.size = sizeof(info)};
        cr_assert_eq(nib_device_get_info(dev, &info), NIB_OK);
        cr_expect_str_eq(info.selector, part);
    }
    nib_device_close(dev);
}

Test(device, opens_by_selector)
{
    nib_context *ctx = context();
    expect_open(ctx, "null", NIB_OK, "null:0");
    expect_open(ctx, "null:0", NIB_OK, "null:0");
    expect_open(ctx, "cpu", NIB_OK, "cpu:0");
    expect_open(ctx, "null:1", NIB_MISSING, "cpu:0");
    expect_open(ctx, "vulkan", NIB_MISSING, "no device 'vulkan'");
    expect_open(ctx, "null:x", NIB_INVALID, "no device selector");
    expect_open(ctx, "null:-1", NIB_INVALID, "no device selector");
    expect_open(ctx, ":0", NIB_INVALID, "no device selector");
    expect_open(ctx, "", NIB_INVALID, "no device selector");
    nib_context_destroy(ctx);
}

Test(device, auto_follows_the_environment_and_then_preference)
{
    nib_context *ctx = context();
    unsetenv("NIB_DEVICE");
    expect_open(ctx, "auto", NIB_OK, "cpu:0");
    expect_open(ctx, NULL, NIB_OK, "cpu:0");
    setenv("NIB_DEVICE", "null", 1);
    expect_open(ctx, "auto", NIB_OK, "null:0");
    expect_open(ctx, "cpu", NIB_OK, "cpu:0");
    setenv("NIB_DEVICE", "cuda:7", 1);
    expect_open(ctx, "auto", NIB_MISSING, "no device 'cuda:7'");
    nib_context_destroy(ctx);
}

Test(device, lists_every_device_and_says_where_the_list_ends)
{
    nib_context *ctx = context();
    uint32_t count = 0;
    cr_assert_eq(nib_device_count(ctx, &count), NIB_OK);
    cr_expect_geq(count, 3); /* cpu, check, null */
    nib_device_info info = {.size = sizeof(info)};
    for (uint32_t i = 0; i < count; i++)
        cr_expect_eq(nib_device_describe(ctx, i, &info), NIB_OK);
    cr_expect_eq(nib_device_describe(ctx, count, &info), NIB_MISSING);
    nib_context_destroy(ctx);
}
