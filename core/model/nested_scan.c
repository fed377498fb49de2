#include "core/model/nested_scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/container/tar.h"
#include "core/container/zip.h"
#include "core/model/bytes.h"
#include "core/model/memory.h"
#include "core/model/zip_records.h"
#include "core/pickle/loader.h"
#include "core/pickle/machine.h"

/* The pickles of a legacy stream: torch loads no more of any stream. */
#define PICKLES_MAX 5

/* Pickles of an inner archive that are looked at, beside its data.pkl. */
#define ENTRIES_MAX 16

/* What opening one stream costs, however short it is. */
#define OPENING 1024u

/* Harmless names of a model with a thousand streams shall not fill the report. */
#define ALL_STREAMS "(a stream inside a byte string)"

struct scan {
    const struct ck_limits *limits;
    struct ck_scratch *scratch;
    struct ck_findings *findings;
    uint64_t left; /* bytes that may still be looked at */
    bool spent;
};

/* The byte strings of one pickle. */
struct strings {
    const struct ck_pickle *pickle;
    const char *entry;
    struct ck_rebuild rebuild; /* for ck_pickled_bytes() only */
    struct ck_arena arena;
    bool *seen; /* for each value */
};

static void scan_graph(struct scan *scan, const struct ck_pickle *pickle, const char *entry, uint64_t depth);

static void strings_release(struct strings *strings) {
    ck_arena_release(&strings->arena);
    free(strings->seen);
}

static void note(struct scan *scan, const char *entry, const char *sentence) {
    ck_findings_add(scan->findings, CK_FINDING_STRUCTURE, entry, 0, "", "", sentence, false);
}

static bool spend(struct scan *scan, const char *entry, uint64_t bytes) {
    if (bytes <= scan->left) {
        scan->left -= bytes;
        return true;
    }
    if (!scan->spent)
        note(scan, entry, "byte strings that would be loaded are too many to be all looked into");
    scan->spent = true;
    scan->left = 0;
    return false;
}

static void lose(struct scan *scan) {
    scan->findings->truncated = true;
    scan->findings->dropped++;
}

/* ---- what a byte string may hold ---- */

static void scan_pickles(struct scan *scan, const struct ck_source *source, const char *entry, uint64_t depth) {
    uint64_t at = 0;

    for (int i = 0; i < PICKLES_MAX && (i == 0 || at < source->length); i++) {
        _cleanup_(ck_pickle_release) struct ck_pickle pickle = {0};
        bool whole;

        if (!spend(scan, entry, OPENING))
            return;
        whole = ck_pickle_run_at(source, at, entry, scan->limits, scan->findings, &pickle, NULL) == 0;
        spend(scan, entry, whole ? pickle.length : CK_MIN(source->length - at, scan->limits->pickle_bytes));
        if (!whole) {
            if (i == 0)
                note(scan, entry, "a byte string that would be loaded is damaged, or no pickle");
            return;
        }
        scan_graph(scan, &pickle, entry, depth);
        at += pickle.length;
    }
}

static void scan_entry(struct scan *scan, const struct ck_zip *zip, const struct ck_zip_entry *entry, const char *way,
                       uint64_t depth) {
    _cleanup_(ck_freep) void *memory = NULL;
    _cleanup_(ck_freep) char *inner = NULL;
    struct ck_source bytes;

    if (asprintf(&inner, "%s > %s", way, entry->name) < 0) {
        inner = NULL;
        lose(scan);
        return;
    }
    if (!spend(scan, inner, OPENING))
        return;
    if (ck_zip_read(zip, entry, scan->left, &bytes, &memory, NULL) == 0)
        scan_pickles(scan, &bytes, inner, depth);
    else
        note(scan, inner, "a pickle that would be loaded cannot be unpacked");
}

static void scan_zip(struct scan *scan, const struct ck_source *source, const char *entry, uint64_t depth) {
    _cleanup_(ck_zip_release) struct ck_zip zip = {0};
    unsigned others = 0;

    if (ck_zip_open(source, scan->limits, scan->findings, &zip, NULL) < 0) {
        note(scan, entry, "a byte string that would be loaded is a damaged zip archive");
        return;
    }
    if (!spend(scan, entry, zip.count * (uint64_t)sizeof(*zip.entries)))
        return;
    for (uint32_t i = 0; i < zip.count; i++)
        if (ck_zip_is_object(&zip.entries[i]) || (ck_zip_is_pickle(&zip, &zip.entries[i]) && others++ < ENTRIES_MAX))
            scan_entry(scan, &zip, &zip.entries[i], entry, depth);
}

/* torch 0.1: the entries storages, tensors and pickle, which are loaded in this order. */
static void scan_tar(struct scan *scan, const struct ck_source *source, const char *entry, uint64_t depth) {
    static const char *const names[] = {"pickle", "storages", "tensors"};
    _cleanup_(ck_tar_release) struct ck_tar tar = {0};

    if (ck_tar_open(source, scan->limits, scan->findings, &tar, NULL) < 0) {
        note(scan, entry, "a byte string that would be loaded is a damaged tar archive");
        return;
    }
    if (!spend(scan, entry, tar.count * (uint64_t)sizeof(*tar.entries)))
        return;
    for (size_t i = 0; i < CK_ARRAY_LEN(names); i++) {
        const struct ck_tar_entry *file = ck_tar_find(&tar, names[i]);
        _cleanup_(ck_freep) char *inner = NULL;
        struct ck_source bytes;

        if (!file || ck_tar_part(&tar, file, &bytes, NULL) < 0)
            continue;
        if (asprintf(&inner, "%s > %s", entry, names[i]) < 0) {
            inner = NULL;
            lose(scan);
            return;
        }
        scan_pickles(scan, &bytes, inner, depth);
    }
}

static void scan_stream(struct scan *scan, const struct ck_source *source, const char *entry, uint64_t depth) {
    uint8_t head[CK_TAR_BLOCK] = {0};
    size_t n = (size_t)CK_MIN((uint64_t)sizeof(head), source->length);

    if (ck_source_read(source, 0, head, n, NULL) == 0 && memcmp(head, "PK\3\4", 4) == 0)
        scan_zip(scan, source, entry, depth);
    else if (n == sizeof(head) && ck_tar_is_header(head))
        scan_tar(scan, source, entry, depth);
    else
        scan_pickles(scan, source, entry, depth);
}

/* ---- the byte strings of a pickle ---- */

/* Findings of one stream join those of the whole: what matters with the way to it. */
static void join(struct ck_findings *findings, const struct ck_findings *inner) {
    for (size_t i = 0; i < inner->count; i++) {
        const struct ck_finding *item = &inner->items[i];
        bool harmless = item->class_ == CK_FINDING_TENSOR || item->class_ == CK_FINDING_CONTAINER;
        size_t at = ck_findings_add(findings, item->class_, harmless ? ALL_STREAMS : item->entry, item->offset,
                                    item->opcode, item->module, item->name, item->called);

        if (at != CK_FINDINGS_NONE)
            findings->items[at].count += item->count - 1;
    }
    findings->truncated = findings->truncated || inner->truncated;
    findings->dropped += inner->dropped;
}

/* Where the string lies, if it does lie in the pickle as it is. */
static char *name_of(const struct strings *strings, ck_ref ref) {
    const struct ck_value *value = ck_pickle_get(strings->pickle, ref);
    const char *parent = strings->entry, *arrow = parent[0] ? " > " : "";
    char *name = NULL;
    int n;

    if ((value->kind == CK_VALUE_BYTES || value->kind == CK_VALUE_TEXT) && value->bytes.offset > 0)
        n = asprintf(&name, "%s%sbyte string at %" PRIu64, parent, arrow, value->bytes.offset);
    else
        n = asprintf(&name, "%s%sbyte string %" PRIu32, parent, arrow, ref);
    return n < 0 ? NULL : name;
}

static void scan_string(struct scan *scan, struct strings *strings, ck_ref ref, uint64_t depth) {
    uint64_t used = scan->scratch ? scan->scratch->used : 0;
    _cleanup_(ck_freep) char *name = name_of(strings, ref);
    struct ck_findings inner, *outer = scan->findings;
    const char *problem = NULL;
    struct ck_source bytes;

    if (!name) {
        lose(scan);
        return;
    }
    if (ck_pickled_bytes(&strings->rebuild, ref, &bytes, &problem, NULL) < 0 || problem) {
        note(scan, name, "a byte string that would be loaded could not be looked into");
    } else {
        ck_findings_init(&inner);
        scan->findings = &inner;
        scan_stream(scan, &bytes, name, depth + 1);
        scan->findings = outer;
        join(outer, &inner);
        ck_findings_release(&inner);
    }
    if (scan->scratch)
        scan->scratch->used = used;
}

static void scan_graph(struct scan *scan, const struct ck_pickle *pickle, const char *entry, uint64_t depth) {
    _cleanup_(strings_release) struct strings strings = {.pickle = pickle, .entry = entry};
    ck_ref bytes;

    if (!ck_pickle_loads_any(pickle))
        return;
    if (depth >= scan->limits->nesting) {
        note(scan, entry, "streams inside byte strings are nested deeper than --limit-nesting");
        return;
    }
    ck_arena_init(&strings.arena, (size_t)scan->limits->model_memory);
    strings.rebuild = (struct ck_rebuild){
        .pickle = pickle, .limits = scan->limits, .arena = &strings.arena, .scratch = scan->scratch};
    strings.seen = calloc(pickle->count, sizeof(*strings.seen));
    if (!strings.seen)
        lose(scan);
    for (ck_ref ref = 0; strings.seen && ref < pickle->count && !scan->spent; ref++)
        if (ck_pickle_loads(pickle, ref, &bytes) && !strings.seen[bytes]) {
            strings.seen[bytes] = true;
            scan_string(scan, &strings, bytes, depth);
        }
}

void ck_nested_scan(const struct ck_pickle *pickle, const char *entry, const struct ck_limits *limits,
                    const struct ck_model_options *options, struct ck_findings *findings) {
    struct scan scan = {.limits = limits,
                        .scratch = options ? options->scratch : NULL,
                        .findings = findings,
                        .left = limits->pickle_bytes};

    scan_graph(&scan, pickle, entry, options ? options->depth : 0);
}
