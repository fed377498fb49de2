#include "core/job/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/strmap.h"

/* A plan needs about a kilobyte for each tensor: names, shapes, evidence, and the header's text. */
#define MEMORY_PER_TENSOR 4096u
#define MEMORY_LEAST      ((size_t)64 << 20)

const char *ck_evidence_kind_name(enum ck_evidence_kind kind) {
    static const char *const names[] = {"known", "derived", "assumed"};

    return names[kind];
}

void ck_plan_init(struct ck_plan *plan, const struct ck_model *model, const struct ck_limits *limits) {
    size_t memory = MEMORY_LEAST + (size_t)model->n_tensors * MEMORY_PER_TENSOR;

    *plan = (struct ck_plan){.model = model};
    ck_arena_init(&plan->arena, CK_MIN(memory, (size_t)limits->model_memory * 4));
}

void ck_plan_release(struct ck_plan *plan) {
    ck_arena_release(&plan->arena);
    *plan = (struct ck_plan){0};
}

const char *ck_plan_name(const struct ck_plan *plan, uint32_t tensor) {
    return plan->names ? plan->names[tensor] : plan->model->tensors[tensor].name;
}

/* The arrays double when their count reaches a power of two, so the capacity need not be stored. */
static void *add(struct ck_plan *plan, void **array, uint32_t *count, size_t size) {
    uint32_t n = *count;

    if ((n & (n - 1)) == 0 && (n == 0 || n >= 8)) {
        void *bigger = ck_arena_alloc_array(&plan->arena, n == 0 ? 8 : (size_t)n * 2, size);

        if (!bigger)
            return NULL;
        if (n > 0)
            memcpy(bigger, *array, n * size);
        *array = bigger;
    }
    (*count)++;
    return (char *)*array + n * size;
}

#define ADD(array, count)                                                                                              \
    ({                                                                                                                 \
        void *array_ = plan->array;                                                                                    \
        void *element_ = add(plan, &array_, &plan->count, sizeof(*plan->array));                                       \
        plan->array = array_;                                                                                          \
        element_;                                                                                                      \
    })

struct ck_plan_item *ck_plan_add_item(struct ck_plan *plan) {
    return ADD(items, n_items);
}

struct ck_plan_note *ck_plan_add_dropped(struct ck_plan *plan) {
    return ADD(dropped, n_dropped);
}

struct ck_plan_note *ck_plan_add_refused(struct ck_plan *plan) {
    return ADD(refused, n_refused);
}

struct ck_plan_alias *ck_plan_add_alias(struct ck_plan *plan) {
    return ADD(aliases, n_aliases);
}

struct ck_plan_rename *ck_plan_add_rename(struct ck_plan *plan) {
    return ADD(renames, n_renames);
}

struct ck_plan_file *ck_plan_add_file(struct ck_plan *plan) {
    return ADD(files, n_files);
}

bool ck_plan_add_warning(struct ck_plan *plan, const char *format, ...) {
    const char **warning;
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    warning = ADD(warnings, n_warnings);
    if (!warning)
        return false;
    *warning = ck_arena_strdup(&plan->arena, text);
    return *warning != NULL;
}

bool ck_plan_add_metadata(struct ck_plan *plan, const char *key, const char *value) {
    const char **pair;

    for (int i = 0; i < 2; i++) {
        uint32_t n = plan->n_metadata * 2 + (uint32_t)i;
        void *array = plan->metadata;

        pair = add(plan, &array, &n, sizeof(*pair));
        plan->metadata = array;
        if (!pair)
            return false;
        *pair = ck_arena_strdup(&plan->arena, i == 0 ? key : value);
        if (!*pair)
            return false;
    }
    plan->n_metadata++;
    return true;
}

static int add_note(struct ck_plan_note *note, struct ck_plan_note value, struct ck_error *err) {
    if (!note)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the plan of the model needs too much memory");
    *note = value;
    return 0;
}

int ck_plan_drop(struct ck_plan *plan, uint32_t tensor, const char *why, const char *message, struct ck_error *err) {
    return add_note(ck_plan_add_dropped(plan), (struct ck_plan_note){.source = tensor, .why = why, .message = message},
                    err);
}

int ck_plan_refuse(struct ck_plan *plan, uint32_t tensor, int code, const char *const *candidates, const char *message,
                   struct ck_error *err) {
    return add_note(message ? ck_plan_add_refused(plan) : NULL,
                    (struct ck_plan_note){.source = tensor, .code = code, .message = message, .candidates = candidates},
                    err);
}

int ck_plan_check_names(const struct ck_plan *plan, struct ck_error *err) {
    _cleanup_(ck_strmap_release) struct ck_strmap seen = {0};

    for (uint32_t i = 0; i < plan->n_items; i++) {
        for (uint32_t k = 0; k < plan->items[i].n_out; k++) {
            const char *name = plan->items[i].out[k].name;
            uint32_t *first = ck_strmap_slot(&seen, name, i * 3 + k);

            if (!first)
                return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the plan of the model needs too much memory");
            if (*first != i * 3 + k)
                return ck_error_set(err, CK_E_NAME_CLASH, name,
                                    "'%.200s' and '%.200s' would both give a tensor named '%.200s'",
                                    plan->model->tensors[plan->items[*first / 3].source].name,
                                    plan->model->tensors[plan->items[i].source].name, name);
        }
    }
    return 0;
}
