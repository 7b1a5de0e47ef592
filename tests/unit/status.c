/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: one a thread, complete or cut, safe to build from themselves; and the log hook.
 */
#include "base/status.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

Test(status, names)
{
    cr_expect_str_eq(nib_status_name(NIB_OK), "NIB_OK");
    cr_expect_str_eq(nib_status_name(NIB_CORRUPT), "NIB_CORRUPT");
    cr_expect_str_eq(nib_status_name(NIB_INTERNAL), "NIB_INTERNAL");
    cr_expect_str_eq(nib_status_name(8), "NIB_?");
    cr_expect_str_eq(nib_status_name(-1), "NIB_?");
    cr_expect_str_eq(nib_version(), "0.1.0");
}

Test(status, no_message_before_the_first_failure)
{
    cr_expect_str_eq(nib_last_message(), "");
}

Test(status, a_message_may_quote_the_last_one)
{
    cr_expect_eq(nib_fail(NIB_INVALID, "m is %d", -3), NIB_INVALID);
    cr_expect_str_eq(nib_last_message(), "m is -3");
    nib_fail(NIB_CORRUPT, "tensor 'a': %s", nib_last_message());
    cr_expect_str_eq(nib_last_message(), "tensor 'a': m is -3");
    cr_expect_eq(nib_fail_within(NIB_MISSING, "file %s", "x"), NIB_MISSING);
    cr_expect_str_eq(nib_last_message(), "file x: tensor 'a': m is -3");
}

Test(status, long_messages_are_cut)
{
    char text[3000];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    nib_fail(NIB_INVALID, "%s", text);
    cr_expect_eq(strlen(nib_last_message()), NIB_MESSAGE_BYTES - 1);
    nib_fail_within(NIB_INVALID, "outer");
    cr_expect_eq(strlen(nib_last_message()), NIB_MESSAGE_BYTES - 1);
    cr_expect_eq(strncmp(nib_last_message(), "outer: xxx", 10), 0);
    nib_fail_within(NIB_INVALID, "%s", text);
    cr_expect_eq(strlen(nib_last_message()), NIB_MESSAGE_BYTES - 1);
}

static void *fail_elsewhere(void *out)
{
    char first = nib_last_message()[0];
    nib_fail(NIB_INVALID, "other");
    *(bool *)out = first == '\0' && !strcmp(nib_last_message(), "other");
    return NULL;
}

Test(status, each_thread_has_its_own_message)
{
    pthread_t thread;
    bool right = false;
    nib_fail(NIB_INVALID, "mine");
    cr_assert_eq(pthread_create(&thread, NULL, fail_elsewhere, &right), 0);
    pthread_join(thread, NULL);
    cr_expect(right);
    cr_expect_str_eq(nib_last_message(), "mine");
}

typedef struct seen {
    int count;
    nib_log_level level;
    char text[64];
} seen;

static void keep(void *user, nib_log_level level, const char *message)
{
    seen *s = user;
    s->count++;
    s->level = level;
    snprintf(s->text, sizeof(s->text), "%s", message);
}

Test(status, the_log_goes_to_the_hook_or_nowhere)
{
    seen s = {0};
    nib_log(NIB_LOG_INFO, "dropped");
    nib_log_sink sink = {.log = keep, .user = &s};
    nib_log_add(&sink);
    nib_log(NIB_LOG_WARNING, "plugin %s refused", "x");
    cr_expect_eq(s.count, 1);
    cr_expect_eq(s.level, NIB_LOG_WARNING);
    cr_expect_str_eq(s.text, "plugin x refused");
    nib_log_remove(&sink);
    nib_log(NIB_LOG_WARNING, "dropped");
    cr_expect_eq(s.count, 1);
}

Test(status, the_end_of_one_sink_leaves_the_others)
{
    seen first = {0}, second = {0};
    nib_log_sink a = {.log = keep, .user = &first}, b = {.log = keep, .user = &second};
    nib_log_add(&a);
    nib_log_add(&b);
    nib_log(NIB_LOG_INFO, "both");
    nib_log_remove(&b);
    nib_log(NIB_LOG_INFO, "one");
    nib_log_remove(&a);
    cr_expect_eq(first.count, 2);
    cr_expect_str_eq(first.text, "one");
    cr_expect_eq(second.count, 1);
}
