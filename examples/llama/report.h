/* SPDX-License-Identifier: Apache-2.0
 *
 * What nib-llama says about the model and the run, for people and as JSON.
 */
#ifndef LLAMA_REPORT_H
#define LLAMA_REPORT_H

#include "run.h"

#include <stdio.h>

void llama_report_model(FILE *file, const llama_model *model);
void llama_report_stats(FILE *file, const llama_model *model, const llama_session *session,
                        const llama_stats *stats);
/* One object: text, model, device, times, memory. */
void llama_report_json(FILE *file, const llama_model *model, const llama_session *session,
                       const llama_tokens *written, const llama_stats *stats);
/* Bytes in quotes, C-like: \" \\ and \xNN for all but printable ASCII. */
void llama_report_quoted(FILE *file, const char *text, size_t bytes);

#endif
