/* model/nested_scan.h: what the streams inside a pickle's byte strings would do when they are loaded.
 *
 * Whoever loads the pickle loads them, too, whether a tensor uses them or not (pickle/loader.h). Pickles one after
 * another, torch's legacy stream, its zip and its tar are told apart as torch does. Findings of such a stream name the
 * way to it, "data.pkl > byte string at 57 > archive/data.pkl", and count their offsets from its start; harmless names
 * (tensor, container) of all streams together are one entry. */
#ifndef CK_MODEL_NESTED_SCAN_H
#define CK_MODEL_NESTED_SCAN_H

#include "core/model/model.h"
#include "core/pickle/value.h"

/* Adds the findings. Never fails: what could not be looked into is a finding itself (damaged; deeper than limits.nesting,
 * together with the archives around the pickle; more than limits.pickle_bytes of it all; text above 64 KiB without
 * options->scratch). Each byte string is looked into once. options may be NULL; options->scratch is afterwards as long
 * as before. */
void ck_nested_scan(const struct ck_pickle *pickle, const char *entry, const struct ck_limits *limits,
                    const struct ck_model_options *options, struct ck_findings *findings);

#endif
