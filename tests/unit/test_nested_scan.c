/* Streams inside byte strings that a pickle would load: what they would call is found, used by a tensor or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/nested_scan.h"
#include "core/pickle/machine.h"
#include "tests/unit/legacy_file.h"
#include "tests/unit/numpy_file.h"

#define FILE_AND_RESULT                                                                                                \
    _cleanup_(tf_release) struct torch_file f;                                                                         \
    _cleanup_(opened_release) struct opened o = {0};                                                                   \
    (void)state;                                                                                                       \
    tf_init(&f)

static const float floats[4] = {1, 2, 3, 4};

/* posix.system("x") */
static void evil(struct torch_file *f) {
    tf_global(f, "posix", "system");
    tf_text(f, "x");
    tf_op(f, "\x85R");
}

static void load(struct torch_file *f, const void *bytes, size_t n) {
    tf_global(f, "torch.storage", "_load_from_bytes");
    nf_bytes(f, bytes, n);
    tf_op(f, "\x85R");
}

static const struct ck_finding *find(const struct ck_findings *findings, enum ck_finding_class class_,
                                     const char *name) {
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].class_ == class_ && strstr(findings->items[i].name, name))
            return &findings->items[i];
    return NULL;
}

static void expect_evil(const struct opened *o, const char *entry, uint64_t offset) {
    const struct ck_finding *finding = find(&o->model->findings, CK_FINDING_DANGEROUS, "system");

    assert_non_null(finding);
    assert_string_equal(finding->module, "posix");
    assert_string_equal(finding->entry, entry);
    assert_int_equal(finding->offset, offset);
    assert_true(finding->called);
    assert_int_equal(finding->count, 1);
}

/* {"x": _load_from_bytes(a legacy stream whose object is evil)}: nothing uses it. */
static void an_unused_stream_is_looked_into(void **state) {
    struct legacy_file inner;
    struct ck_source stream;
    FILE_AND_RESULT;

    lf_init(&inner);
    evil(&inner.object);
    stream = lf_finish(&inner);
    tf_op(&f, "}");
    tf_text(&f, "x");
    load(&f, stream.memory, (size_t)stream.length);
    tf_op(&f, "s");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, CK_E_NO_TENSORS);
    /* The string starts behind 2 bytes of PROTO, 1, 6 of its key, 32 of GLOBAL, 5 of BINBYTES; in it three pickles of
     * 15, 6 and 6 bytes and PROTO come first. */
    expect_evil(&o, "byte string at 46", 29);
    lf_release(&inner);
}

static void in_a_torch_zip_the_entry_comes_first(void **state) {
    struct torch_file inner;
    FILE_AND_RESULT;

    tf_init(&inner);
    evil(&inner);
    tf_op(&inner, ".");
    tf_op(&f, "}(");
    tf_text(&f, "w");
    tf_vector(&f, "0", 4);
    tf_text(&f, "x");
    load(&f, inner.pickle.data, inner.pickle.length);
    tf_op(&f, "u");
    tf_record(&f, "0", floats, sizeof(floats));
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 1);
    assert_non_null(find(&o.model->findings, CK_FINDING_DANGEROUS, "system"));
    assert_memory_equal(find(&o.model->findings, CK_FINDING_DANGEROUS, "system")->entry,
                        "archive/data.pkl > byte string at ", 34);
    tf_release(&inner);
}

static void a_zip_and_a_tar_in_a_byte_string_are_opened(void **state) {
    struct torch_file zip;
    struct torch_tar tar;
    struct ck_source stream;

    (void)state;
    for (int i = 0; i < 2; i++) {
        FILE_AND_RESULT;

        if (i == 0) {
            tf_init(&zip);
            evil(&zip);
            stream = tf_finish(&zip);
        } else {
            tt_init(&tar);
            tt_count(&tar.storages, 0);
            evil(&tar.object);
            stream = tt_finish(&tar);
        }
        load(&f, stream.memory, (size_t)stream.length);
        o = nf_open_plain(&f, NULL);
        assert_int_equal(o.r, CK_E_NO_TENSORS);
        expect_evil(&o, i == 0 ? "byte string at 39 > archive/data.pkl" : "byte string at 39 > pickle", 2);
    }
    tf_release(&zip);
    tt_release(&tar);
}

static void a_legacy_stream_is_looked_into(void **state) {
    _cleanup_(opened_release) struct opened o = {0};
    struct torch_file inner;
    struct legacy_file f;

    (void)state;
    tf_init(&inner);
    evil(&inner);
    tf_op(&inner, ".");
    lf_init(&f);
    load(&f.object, inner.pickle.data, inner.pickle.length);
    o = lf_open(&f);
    assert_int_equal(o.r, CK_E_NO_TENSORS);
    /* 15 + 6 + 6 bytes of the three pickles before, then the same as above. */
    expect_evil(&o, "byte string at 66", 2);
    tf_release(&inner);
    lf_release(&f);
}

/* pickle.loads(b) and torch.load(io.BytesIO(b)) */
static void other_loaders_are_looked_through(void **state) {
    struct torch_file inner;

    (void)state;
    tf_init(&inner);
    evil(&inner);
    tf_op(&inner, ".");
    for (int i = 0; i < 2; i++) {
        FILE_AND_RESULT;

        tf_global(&f, i == 0 ? "pickle" : "torch", i == 0 ? "loads" : "load");
        if (i == 1)
            tf_global(&f, "io", "BytesIO");
        nf_bytes(&f, inner.pickle.data, inner.pickle.length);
        tf_op(&f, i == 0 ? "\x85R" : "\x85R\x85R");
        o = nf_open_plain(&f, NULL);
        assert_int_equal(o.r, CK_E_NO_TENSORS);
        assert_non_null(find(&o.model->findings, CK_FINDING_DANGEROUS, "load"));
        assert_non_null(find(&o.model->findings, CK_FINDING_DANGEROUS, "system"));
    }
    tf_release(&inner);
}

static void a_dotted_name_hides_no_loader(void **state) {
    FILE_AND_RESULT;

    tf_global(&f, "torch", "storage._load_from_bytes");
    nf_bytes(&f, "cposix\nsystem\n.", 15);
    tf_op(&f, "\x85R");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, CK_E_NO_TENSORS);
    assert_non_null(find(&o.model->findings, CK_FINDING_DANGEROUS, "system"));
}

/* Protocol 2 writes bytes as _codecs.encode(text, 'latin1'). */
static void text_that_stands_for_bytes_is_looked_into(void **state) {
    FILE_AND_RESULT;

    tf_global(&f, "torch.storage", "_load_from_bytes");
    tf_global(&f, "_codecs", "encode");
    tf_text(&f, "cposix\nsystem\n.");
    tf_text(&f, "latin1");
    tf_op(&f, "\x86R\x85R");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, CK_E_NO_TENSORS);
    assert_non_null(find(&o.model->findings, CK_FINDING_DANGEROUS, "system"));
}

static void what_is_no_pickle_is_said_to_be_none(void **state) {
    FILE_AND_RESULT;

    load(&f, "\xFF\xFF\xFF\xFF", 4);
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, CK_E_NO_TENSORS);
    assert_non_null(find(&o.model->findings, CK_FINDING_STRUCTURE, "is damaged, or no pickle"));
}

static void a_damaged_pickle_around_a_stream_says_so(void **state) {
    FILE_AND_RESULT;

    load(&f, "N.", 2);
    tf_raw(&f, "\xFF", 1);
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, CK_E_PICKLE_CORRUPT);
    assert_non_null(find(&o.model->findings, CK_FINDING_STRUCTURE, "would be loaded was not looked into"));
}

/* load(b"load(b".. evil ..")"), `levels` byte strings deep */
static void wrap(struct torch_file *f, unsigned levels) {
    struct torch_file inner;

    if (levels == 0) {
        evil(f);
        return;
    }
    tf_init(&inner);
    wrap(&inner, levels - 1);
    tf_op(&inner, ".");
    load(f, inner.pickle.data, inner.pickle.length);
    tf_release(&inner);
}

static void nesting_ends_at_the_limit(void **state) {
    (void)state;
    for (unsigned levels = 3; levels <= 4; levels++) {
        FILE_AND_RESULT;

        wrap(&f, levels);
        o = nf_open_plain(&f, NULL);
        assert_int_equal(o.r, CK_E_NO_TENSORS);
        assert_int_equal(find(&o.model->findings, CK_FINDING_DANGEROUS, "system") != NULL, levels == 3);
        assert_int_equal(find(&o.model->findings, CK_FINDING_STRUCTURE, "--limit-nesting") != NULL, levels == 4);
    }
}

/* 2000 streams; each costs 1 KiB and its two bytes. */
static void all_streams_together_are_bounded(void **state) {
    for (int spent = 0; spent < 2; spent++) {
        struct ck_limits limits = ck_limits_default;
        struct ck_findings findings;
        struct ck_pickle pickle;
        struct ck_source source;
        FILE_AND_RESULT;

        tf_op(&f, "](");
        for (int i = 0; i < 2000; i++)
            load(&f, "N.", 2);
        tf_op(&f, "e.");
        source = ck_source_from_memory(f.pickle.data, f.pickle.length);
        ck_findings_init(&findings);
        assert_int_equal(ck_pickle_run(&source, "", &limits, &findings, &pickle, NULL), 0);
        limits.pickle_bytes = 2000 * (1024 + 2) - (uint64_t)spent;
        ck_nested_scan(&pickle, "", &limits, NULL, &findings);
        assert_int_equal(find(&findings, CK_FINDING_STRUCTURE, "too many to be all looked into") != NULL, spent);
        ck_findings_release(&findings);
        ck_pickle_release(&pickle);
    }
}

/* One byte string that a thousand calls share is one stream. */
static void a_shared_string_is_looked_into_once(void **state) {
    struct torch_file inner;
    FILE_AND_RESULT;

    tf_init(&inner);
    evil(&inner);
    tf_op(&inner, ".");
    tf_global(&f, "torch.storage", "_load_from_bytes");
    tf_put(&f, 0);
    nf_bytes(&f, inner.pickle.data, inner.pickle.length);
    tf_put(&f, 1);
    tf_op(&f, "](");
    for (int i = 0; i < 1000; i++) {
        tf_get(&f, 0);
        tf_get(&f, 1);
        tf_op(&f, "\x85R");
    }
    tf_op(&f, "e");
    o = nf_open_plain(&f, NULL);
    expect_evil(&o, "byte string at 41", 2);
    tf_release(&inner);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unused_stream_is_looked_into),
        cmocka_unit_test(in_a_torch_zip_the_entry_comes_first),
        cmocka_unit_test(a_zip_and_a_tar_in_a_byte_string_are_opened),
        cmocka_unit_test(a_legacy_stream_is_looked_into),
        cmocka_unit_test(other_loaders_are_looked_through),
        cmocka_unit_test(a_dotted_name_hides_no_loader),
        cmocka_unit_test(text_that_stands_for_bytes_is_looked_into),
        cmocka_unit_test(what_is_no_pickle_is_said_to_be_none),
        cmocka_unit_test(a_damaged_pickle_around_a_stream_says_so),
        cmocka_unit_test(nesting_ends_at_the_limit),
        cmocka_unit_test(all_streams_together_are_bounded),
        cmocka_unit_test(a_shared_string_is_looked_into_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
