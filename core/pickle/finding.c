#include "core/pickle/finding.h"

#include <stdio.h>
#include <string.h>

#define FINDINGS_MEMORY ((size_t)32 << 20)

static const char *const class_names[] = {
    [CK_FINDING_TENSOR] = "tensor",       [CK_FINDING_CONTAINER] = "container", [CK_FINDING_UNKNOWN] = "unknown",
    [CK_FINDING_DANGEROUS] = "dangerous", [CK_FINDING_STRUCTURE] = "structure",
};

const char *ck_finding_class_name(enum ck_finding_class class_) {
    return (size_t)class_ < CK_ARRAY_LEN(class_names) ? class_names[class_] : "unknown";
}

void ck_findings_init(struct ck_findings *findings) {
    *findings = (struct ck_findings){0};
    ck_arena_init(&findings->arena, FINDINGS_MEMORY);
}

static char *copy_text(struct ck_findings *findings, const char *text) {
    size_t n = strlen(text);

    if (n <= CK_FINDING_TEXT_MAX)
        return ck_arena_copy(&findings->arena, text, n);
    return ck_arena_printf(&findings->arena, "%.*s...", CK_FINDING_TEXT_MAX - 3, text);
}

static bool reserve_item(struct ck_findings *findings) {
    size_t capacity = CK_MAX(findings->capacity * 2, (size_t)16);
    struct ck_finding *items;

    if (findings->count < findings->capacity)
        return true;
    items = realloc(findings->items, capacity * sizeof(*items));
    if (!items)
        return false;
    findings->items = items;
    findings->capacity = capacity;
    return true;
}

static bool place_left(const struct ck_findings *findings, enum ck_finding_class class_) {
    bool matters = class_ == CK_FINDING_DANGEROUS || class_ == CK_FINDING_STRUCTURE;

    return findings->count < CK_FINDINGS_MAX - (matters ? 0 : CK_FINDINGS_RESERVED);
}

/* Copies the item's texts and appends it; false when memory is exhausted. */
static bool append(struct ck_findings *findings, const struct ck_finding *item, const char *key) {
    struct ck_finding copy = *item;
    const char *last_entry = findings->count > 0 ? findings->items[findings->count - 1].entry : "";
    char *owned_key = ck_arena_strdup(&findings->arena, key);

    /* Findings come entry by entry: equal neighbours share one text. */
    copy.entry = strcmp(last_entry, item->entry) == 0 ? last_entry : copy_text(findings, item->entry);
    copy.opcode = copy_text(findings, item->opcode);
    copy.module = copy_text(findings, item->module);
    copy.name = copy_text(findings, item->name);
    if (!owned_key || !copy.entry || !copy.opcode || !copy.module || !copy.name || !reserve_item(findings) ||
        !ck_strmap_set(&findings->index, owned_key, (uint32_t)findings->count))
        return false;
    findings->items[findings->count++] = copy;
    return true;
}

size_t ck_findings_add(struct ck_findings *findings, enum ck_finding_class class_, const char *entry, uint64_t offset,
                       const char *opcode, const char *module, const char *name, bool called) {
    struct ck_finding item = {class_, entry, offset, opcode, module, name, called, 1};
    char key[3 * CK_FINDING_TEXT_MAX + 16];
    uint32_t found;

    /* A line break inside a name could make two keys equal; then they are counted together, and the first is shown. */
    snprintf(key, sizeof(key), "%d\n%.*s\n%.*s\n%.*s", (int)class_, CK_FINDING_TEXT_MAX, entry, CK_FINDING_TEXT_MAX,
             module, CK_FINDING_TEXT_MAX, name);
    if (ck_strmap_get(&findings->index, key, &found)) {
        findings->items[found].count++;
        findings->items[found].called |= called;
        return found;
    }
    if (!place_left(findings, class_)) {
        findings->truncated = true;
        findings->dropped++;
        return CK_FINDINGS_NONE;
    }
    if (!append(findings, &item, key)) {
        findings->dropped++;
        return CK_FINDINGS_NONE;
    }
    return findings->count - 1;
}

size_t ck_findings_count(const struct ck_findings *findings, enum ck_finding_class class_) {
    size_t n = 0;

    for (size_t i = 0; i < findings->count; i++)
        n += findings->items[i].class_ == class_;
    return n;
}

void ck_findings_json(const struct ck_findings *findings, struct ck_json *json, bool all) {
    ck_json_array_begin(json);
    for (size_t i = 0; i < findings->count; i++) {
        const struct ck_finding *item = &findings->items[i];

        if (!all && (item->class_ == CK_FINDING_TENSOR || item->class_ == CK_FINDING_CONTAINER))
            continue;
        ck_json_object_begin(json);
        ck_json_key_string(json, "entry", item->entry);
        ck_json_key_u64(json, "offset", item->offset);
        ck_json_key_string(json, "opcode", item->opcode);
        ck_json_key_string(json, "module", item->module);
        ck_json_key_string(json, "name", item->name);
        ck_json_key_string(json, "class", ck_finding_class_name(item->class_));
        ck_json_key_bool(json, "called", item->called);
        ck_json_key_u64(json, "count", item->count);
        ck_json_object_end(json);
    }
    ck_json_array_end(json);
}

void ck_findings_release(struct ck_findings *findings) {
    ck_strmap_release(&findings->index);
    free(findings->items);
    ck_arena_release(&findings->arena);
    ck_findings_init(findings);
}
