/* pickle/finding.h: what a security-minded reader wants to know about a file, collected in the same pass that reads its
 * data. */
#ifndef CK_PICKLE_FINDING_H
#define CK_PICKLE_FINDING_H

#include "core/base/arena.h"
#include "core/base/json_write.h"
#include "core/base/strmap.h"

enum ck_finding_class {
    CK_FINDING_TENSOR,    /* globals that rebuild tensors and storages */
    CK_FINDING_CONTAINER, /* dict-like and list-like classes, torch.nn modules, numpy arrays, plain configuration */
    CK_FINDING_UNKNOWN,   /* any other global */
    CK_FINDING_DANGEROUS, /* a global that reaches the operating system, an interpreter or a loader */
    CK_FINDING_STRUCTURE, /* something that two readers would read differently: late PROTO, bad FRAME, bytes after STOP,
                             zip tricks */
};

struct ck_finding {
    enum ck_finding_class class_;
    const char *entry;  /* archive member, or "" */
    uint64_t offset;    /* byte in the entry */
    const char *opcode; /* "GLOBAL", or "" */
    const char *module; /* of the global, or "" */
    const char *name;   /* of the global, or a sentence if module is "" */
    bool called;        /* a call with this callee was met */
    uint64_t count;     /* how often; the offset is the first */
};

struct ck_findings {
    struct ck_arena arena;
    struct ck_finding *items; /* owned */
    size_t count, capacity;
    struct ck_strmap index; /* (class, entry, module, name) to its item */
    bool truncated;         /* more than CK_FINDINGS_MAX different ones: the rest is only counted here */
    uint64_t dropped;
};

#define CK_FINDINGS_MAX  10000
#define CK_FINDINGS_NONE SIZE_MAX

/* Of the CK_FINDINGS_MAX places, these are kept for dangerous and structure: a flood of harmless names must not hide
 * one. */
#define CK_FINDINGS_RESERVED 1000

/* Longer texts are cut, with "..." at the end. */
#define CK_FINDING_TEXT_MAX 512

void ck_findings_init(struct ck_findings *findings);

/* Adds one, or counts it on an equal (entry, class, module, name) and joins `called`. Never fails: what finds no memory
 * or place is counted in `dropped`. Texts are copied. Returns the index of the item, which stays the same, or
 * CK_FINDINGS_NONE if it was dropped. */
size_t ck_findings_add(struct ck_findings *findings, enum ck_finding_class class_, const char *entry, uint64_t offset,
                       const char *opcode, const char *module, const char *name, bool called);

/* How many are of this class. */
size_t ck_findings_count(const struct ck_findings *findings, enum ck_finding_class class_);

/* Writes a JSON array {entry, offset, opcode, module, name, class, called, count}. Tensor and container classes are
 * left out unless all. */
void ck_findings_json(const struct ck_findings *findings, struct ck_json *json, bool all);

/* "tensor", "container", "unknown", "dangerous", "structure". */
const char *ck_finding_class_name(enum ck_finding_class class_);

void ck_findings_release(struct ck_findings *findings);

/* The class of a global. Tensor and container are told by exact names only, since a prefix is no mark of trust (torch
 * and numpy hold gadgets too), but for __torch__, which no interpreter can import; dangerous is told piece by piece: `builtins` `eval.__call__`, `pathlib` `os.system`,
 * `os.path` `x`. */
enum ck_finding_class ck_finding_judge(const char *module, const char *name);

#endif
