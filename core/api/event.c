/* SPDX-License-Identifier: Apache-2.0
 *
 * Events: the backend's, with the device they belong to. For programs that measure; a run needs
 * none.
 */
#include "api/internal.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

struct nib_event {
    nib_device *dev;
    void *handle; /* the backend's own */
};

nib_status nib_event_create(nib_device *dev, nib_event **out)
{
    if (!dev || !out)
        return nib_fail(NIB_INVALID, "nib_event_create needs a device and a place for the event");
    const nib_backend_api *api = &dev->backend->api;
    if (!api->event_create || !api->event_destroy || !api->event_record || !api->event_elapsed)
        return nib_fail(NIB_UNSUPPORTED, "%s has no events: time its runs with the host's clock",
                        dev->info.selector);
    nib_event *event = malloc(sizeof(*event));
    if (!event)
        return nib_fail(NIB_NO_MEMORY, "no memory for an event");
    event->dev = dev;
    nib_status status = api->event_create(dev->handle, &event->handle);
    if (status) {
        free(event);
        return status;
    }
    *out = event;
    return NIB_OK;
}

void nib_event_destroy(nib_event *event)
{
    if (!event)
        return;
    event->dev->backend->api.event_destroy(event->dev->handle, event->handle);
    free(event);
}

nib_status nib_event_record(nib_event *event, void *stream)
{
    if (!event)
        return nib_fail(NIB_INVALID, "the event is NULL");
    return event->dev->backend->api.event_record(event->dev->handle, event->handle, stream);
}

nib_status nib_event_elapsed(nib_event *from, nib_event *to, double *us)
{
    if (!from || !to || !us)
        return nib_fail(NIB_INVALID, "nib_event_elapsed needs two events and a place for the time");
    if (from->dev != to->dev)
        return nib_fail(NIB_INVALID, "the events are of two devices, %s and %s%s",
                        from->dev->info.selector, to->dev->info.selector,
                        strcmp(from->dev->info.selector, to->dev->info.selector)
                            ? ""
                            : " opened again: make both with one nib_device");
    return from->dev->backend->api.event_elapsed(from->dev->handle, from->handle, to->handle, us);
}
