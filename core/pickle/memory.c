#include "core/pickle/state.h"

#include <string.h>

static int out_of_budget(struct ck_machine *m) {
    return ck_machine_limit(m, "--limit-pickle-memory", m->budget,
                            "bytes of memory for its values (also bounded by 24 times the pickle's size)");
}

static size_t left(const struct ck_machine *m) {
    return m->budget - m->charged - m->graph.arena.used;
}

static void charge(struct ck_machine *m, size_t bytes) {
    m->charged += bytes;
    m->graph.arena.limit = m->budget - m->charged;
}

int ck_machine_grow(struct ck_machine *m, void *pointer_to_array, size_t *capacity, size_t need, size_t size) {
    size_t want = CK_MAX(CK_MAX(*capacity * 2, need), (size_t)16), most;
    void **array = pointer_to_array, *grown;

    if (need <= *capacity)
        return 0;
    /* Near the end of the budget it grows by what is left; by less than an eighth, copying would become quadratic. */
    most = *capacity + left(m) / size;
    want = CK_MIN(want, most);
    if (want < need || want < *capacity + *capacity / 8)
        return out_of_budget(m);
    grown = realloc(*array, want * size);
    if (!grown)
        return ck_machine_fail(m, CK_E_OUT_OF_MEMORY, "out of memory");
    charge(m, (want - *capacity) * size);
    *array = grown;
    *capacity = want;
    return 0;
}

int ck_machine_alloc(struct ck_machine *m, size_t count, size_t size, void *ret_pointer) {
    void *p = ck_arena_alloc_array(&m->graph.arena, count, size), **ret = ret_pointer;

    if (!p) {
        /* The arena does not say why: near its limit it is the limit. 64 covers rounding. */
        if (count > SIZE_MAX / size - 64 || count * size + 64 > left(m))
            return out_of_budget(m);
        return ck_machine_fail(m, CK_E_OUT_OF_MEMORY, "out of memory");
    }
    *ret = p;
    return 0;
}

void ck_machine_forget(struct ck_machine *m) {
    struct ck_memo *memo = &m->memo;
    size_t bytes = memo->dense_capacity * sizeof(*memo->dense) + memo->hashed_capacity * sizeof(*memo->hashed);

    free(memo->dense);
    free(memo->hashed);
    *memo = (struct ck_memo){0};
    m->charged -= bytes;
    m->graph.arena.limit += bytes;
}

static size_t hash_slot(const struct ck_memo *memo, uint32_t index) {
    return (size_t)(index * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (memo->hashed_capacity - 1);
}

/* The slot of the index, or the free one where it would go. The table is never full. */
static struct ck_memo_slot *find_slot(const struct ck_memo *memo, uint32_t index) {
    size_t i = hash_slot(memo, index);

    while (memo->hashed[i].ref != CK_REF_UNSET && memo->hashed[i].index != index)
        i = (i + 1) & (memo->hashed_capacity - 1);
    return &memo->hashed[i];
}

bool ck_machine_get(const struct ck_machine *m, uint32_t index, ck_ref *ret_ref) {
    const struct ck_memo *memo = &m->memo;
    ck_ref ref = index < memo->dense_capacity ? memo->dense[index] : CK_REF_UNSET;

    /* An index may have been hashed before the dense part grew over it. */
    if (ref == CK_REF_UNSET && memo->hashed_capacity > 0)
        ref = find_slot(memo, index)->ref;
    if (ref == CK_REF_UNSET)
        return false;
    *ret_ref = ref;
    return true;
}

static int grow_dense(struct ck_machine *m, uint32_t index) {
    struct ck_memo *memo = &m->memo;
    size_t old = memo->dense_capacity;
    int r;

    r = ck_machine_grow(m, &memo->dense, &memo->dense_capacity, (size_t)index + 1, sizeof(*memo->dense));
    if (r < 0)
        return r;
    for (size_t i = old; i < memo->dense_capacity; i++)
        memo->dense[i] = CK_REF_UNSET;
    return 0;
}

static int grow_hashed(struct ck_machine *m) {
    struct ck_memo *memo = &m->memo, bigger = {.hashed_capacity = CK_MAX(memo->hashed_capacity * 2, (size_t)64)};
    size_t more = (bigger.hashed_capacity - memo->hashed_capacity) * sizeof(*bigger.hashed);

    if (more > left(m))
        return out_of_budget(m);
    bigger.hashed = malloc(bigger.hashed_capacity * sizeof(*bigger.hashed));
    if (!bigger.hashed)
        return ck_machine_fail(m, CK_E_OUT_OF_MEMORY, "out of memory");
    charge(m, more);
    for (size_t i = 0; i < bigger.hashed_capacity; i++)
        bigger.hashed[i].ref = CK_REF_UNSET;
    for (size_t i = 0; i < memo->hashed_capacity; i++)
        if (memo->hashed[i].ref != CK_REF_UNSET)
            *find_slot(&bigger, memo->hashed[i].index) = memo->hashed[i];
    free(memo->hashed);
    memo->hashed = bigger.hashed;
    memo->hashed_capacity = bigger.hashed_capacity;
    return 0;
}

static int put_hashed(struct ck_machine *m, uint32_t index, ck_ref ref) {
    struct ck_memo *memo = &m->memo;
    struct ck_memo_slot *slot;
    int r;

    if (memo->hashed_count >= memo->hashed_capacity / 2) {
        r = grow_hashed(m);
        if (r < 0)
            return r;
    }
    slot = find_slot(memo, index);
    memo->hashed_count += slot->ref == CK_REF_UNSET;
    *slot = (struct ck_memo_slot){index, ref};
    return 0;
}

int ck_machine_put(struct ck_machine *m, uint32_t index, ck_ref ref) {
    struct ck_memo *memo = &m->memo;
    ck_ref before;
    bool known = ck_machine_get(m, index, &before);
    int r = 0;

    if (index >= memo->dense_capacity && index < 2 * (uint64_t)memo->count + 64)
        r = grow_dense(m, index);
    if (r >= 0 && index < memo->dense_capacity)
        memo->dense[index] = ref;
    else if (r >= 0)
        r = put_hashed(m, index, ref);
    if (r < 0)
        return r;
    memo->count += !known;
    return 0;
}
