/* The pickle machine on arbitrary bytes, under small limits; then everything that reads a graph, on whatever graph came
 * out. */
#include "core/pickle/machine.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
    if (!holds)
        __builtin_trap();
}

static void read_bytes(const struct ck_pickle *pickle, const struct ck_value *value) {
    volatile uint8_t sum = 0;

    if (!value->bytes.data) {
        check(value->bytes.length > CK_PICKLE_INLINE && value->bytes.offset <= pickle->source.length &&
              value->bytes.length <= pickle->source.length - value->bytes.offset);
        return;
    }
    for (uint64_t i = 0; i <= value->bytes.length; i++)
        sum = (uint8_t)(sum + value->bytes.data[i]);
    check(value->bytes.data[value->bytes.length] == 0);
}

static void read_walks(const struct ck_pickle *pickle, ck_ref ref) {
    struct ck_pickle_walk walk;
    ck_ref key, value;

    ck_pickle_pairs(pickle, ref, &walk);
    while (ck_pickle_next_pair(&walk, &key, &value))
        check(key < pickle->count && value < pickle->count);
    ck_pickle_items(pickle, ref, &walk);
    while (ck_pickle_next_item(&walk, &value))
        check(value < pickle->count);
    if (ck_pickle_find(pickle, ref, "_modules", &value))
        check(value < pickle->count);
    if (ck_pickle_class(pickle, ref, &value))
        check(ck_pickle_get(pickle, value)->kind == CK_VALUE_GLOBAL);
    if (ck_pickle_argument(pickle, ref, 1, &value))
        check(value < pickle->count);
}

static void read_value(const struct ck_pickle *pickle, ck_ref ref) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);

    switch ((enum ck_value_kind)value->kind) {
    case CK_VALUE_BIGINT:
    case CK_VALUE_TEXT:
    case CK_VALUE_BYTES:
        read_bytes(pickle, value);
        break;
    case CK_VALUE_DICT:
        check(value->list.count % 2 == 0);
        break;
    case CK_VALUE_PERSISTENT:
        check(value->list.count == 1);
        break;
    case CK_VALUE_CALL:
        check(value->call.callee < pickle->count && value->call.arguments < pickle->count &&
              value->call.keywords < pickle->count && value->call.state < pickle->count &&
              value->call.items < pickle->count && value->call.pairs < pickle->count);
        break;
    default:
        break;
    }
    read_walks(pickle, ref);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ck_limits limits = ck_limits_default;
    struct ck_source source = ck_source_from_memory(data, size);
    struct ck_findings findings;
    struct ck_pickle pickle = {0};
    struct ck_error err = {0};
    int r;

    limits.pickle_memory = 4 * CK_MIB;
    ck_findings_init(&findings);
    r = ck_pickle_run(&source, "data.pkl", &limits, &findings, &pickle, &err);
    check(r == err.code && (r < 0 || (pickle.root < pickle.count && pickle.length <= size)));
    check(r >= 0 || (!pickle.values && err.message[0]));
    /* A walk costs the members of a value, so all of them cost at most the square of the input: only the first are
     * read. */
    for (ck_ref ref = 0; ref < pickle.count && ref < 2000; ref++)
        read_value(&pickle, ref);
    ck_pickle_release(&pickle);
    ck_findings_release(&findings);
    return 0;
}
