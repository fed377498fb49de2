/* The classes of globals, and the list of findings: counted, bounded, never lost to a flood. */
#include "core/pickle/finding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct judged {
    const char *module, *name;
    enum ck_finding_class class_;
};

static void assert_judged(const struct judged *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        enum ck_finding_class got = ck_finding_judge(rows[i].module, rows[i].name);

        if (got != rows[i].class_)
            fail_msg("%s %s is %s, expected %s", rows[i].module, rows[i].name, ck_finding_class_name(got),
                     ck_finding_class_name(rows[i].class_));
    }
}

static void names_that_rebuild_tensors_are_tensor(void **state) {
    static const struct judged rows[] = {
        {"torch._utils", "_rebuild_tensor_v2", CK_FINDING_TENSOR},
        {"torch._utils", "_rebuild_parameter", CK_FINDING_TENSOR},
        {"torch._tensor", "_rebuild_from_type_v2", CK_FINDING_TENSOR},
        {"torch", "FloatStorage", CK_FINDING_TENSOR},
        {"torch", "BFloat16Storage", CK_FINDING_TENSOR},
        {"torch.cuda", "HalfStorage", CK_FINDING_TENSOR},
        {"torch.storage", "UntypedStorage", CK_FINDING_TENSOR},
        {"torch.storage", "_load_from_bytes", CK_FINDING_TENSOR},
        {"torch.nn.parameter", "Parameter", CK_FINDING_TENSOR},
        {"torch", "float8_e4m3fn", CK_FINDING_TENSOR},
        {"torch", "Size", CK_FINDING_TENSOR},
    };

    (void)state;
    assert_judged(rows, CK_ARRAY_LEN(rows));
}

static void names_of_containers_modules_and_arrays_are_container(void **state) {
    static const struct judged rows[] = {
        {"collections", "OrderedDict", CK_FINDING_CONTAINER},
        {"__builtin__", "set", CK_FINDING_CONTAINER},
        {"builtins", "dict", CK_FINDING_CONTAINER},
        {"copy_reg", "_reconstructor", CK_FINDING_CONTAINER},
        {"_codecs", "encode", CK_FINDING_CONTAINER},
        {"numpy.core.multiarray", "_reconstruct", CK_FINDING_CONTAINER},
        {"numpy._core.multiarray", "scalar", CK_FINDING_CONTAINER},
        {"numpy.random._pickle", "__randomstate_ctor", CK_FINDING_CONTAINER},
        {"argparse", "Namespace", CK_FINDING_CONTAINER},
        {"pathlib", "PosixPath", CK_FINDING_CONTAINER},
        {"torch.nn.modules.conv", "Conv2d", CK_FINDING_CONTAINER},
        {"torch.nn.modules.rnn", "LSTM", CK_FINDING_CONTAINER},
    };

    (void)state;
    assert_judged(rows, CK_ARRAY_LEN(rows));
}

static void names_that_reach_the_system_or_an_interpreter_are_dangerous(void **state) {
    static const struct judged rows[] = {
        {"os", "system", CK_FINDING_DANGEROUS},
        {"posix", "system", CK_FINDING_DANGEROUS},
        {"nt", "system", CK_FINDING_DANGEROUS},
        {"os.path", "join", CK_FINDING_DANGEROUS},
        {"subprocess", "Popen", CK_FINDING_DANGEROUS},
        {"sys", "modules", CK_FINDING_DANGEROUS},
        {"socket", "socket", CK_FINDING_DANGEROUS},
        {"shutil", "rmtree", CK_FINDING_DANGEROUS},
        {"pty", "spawn", CK_FINDING_DANGEROUS},
        {"runpy", "run_path", CK_FINDING_DANGEROUS},
        {"ctypes", "CDLL", CK_FINDING_DANGEROUS},
        {"importlib", "import_module", CK_FINDING_DANGEROUS},
        {"pickle", "loads", CK_FINDING_DANGEROUS},
        {"marshal", "loads", CK_FINDING_DANGEROUS},
        {"code", "interact", CK_FINDING_DANGEROUS},
        {"webbrowser", "open", CK_FINDING_DANGEROUS},
        {"pip", "main", CK_FINDING_DANGEROUS},
        {"pip._internal", "main", CK_FINDING_DANGEROUS},
        {"_io", "FileIO", CK_FINDING_DANGEROUS},
        {"io", "open", CK_FINDING_DANGEROUS},
        {"pydoc", "locate", CK_FINDING_DANGEROUS},
        {"pkgutil", "resolve_name", CK_FINDING_DANGEROUS},
        {"bdb", "Bdb.run", CK_FINDING_DANGEROUS},
        {"operator", "methodcaller", CK_FINDING_DANGEROUS},
        {"types", "CodeType", CK_FINDING_DANGEROUS},
        {"torch.serialization", "load", CK_FINDING_DANGEROUS},
        {"torch", "load", CK_FINDING_DANGEROUS},
        {"torch.hub", "load", CK_FINDING_DANGEROUS},
        {"builtins", "eval", CK_FINDING_DANGEROUS},
        {"__builtin__", "exec", CK_FINDING_DANGEROUS},
        {"builtins", "compile", CK_FINDING_DANGEROUS},
        {"builtins", "getattr", CK_FINDING_DANGEROUS},
        {"builtins", "open", CK_FINDING_DANGEROUS},
        {"builtins", "__import__", CK_FINDING_DANGEROUS},
        {"__builtin__", "apply", CK_FINDING_DANGEROUS},
        {"commands", "getoutput", CK_FINDING_DANGEROUS},
        {"dill._dill", "_create_code", CK_FINDING_DANGEROUS},
        {"cloudpickle.cloudpickle", "_make_function", CK_FINDING_DANGEROUS},
        {"torch.jit.unsupported_tensor_ops", "execWrapper", CK_FINDING_DANGEROUS},
        {"numpy.testing._private.utils", "runstring", CK_FINDING_DANGEROUS},
    };

    (void)state;
    assert_judged(rows, CK_ARRAY_LEN(rows));
}

/* GHSA-5j3x-jp52-966f: dotted names of STACK_GLOBAL hid the callee from scanners. */
static void attribute_paths_are_judged_piece_by_piece(void **state) {
    static const struct judged rows[] = {
        {"builtins", "eval.__call__", CK_FINDING_DANGEROUS},
        {"pathlib", "os.system", CK_FINDING_DANGEROUS},
        {"collections", "abc.sys.modules", CK_FINDING_DANGEROUS},
        {"collections", "OrderedDict.__init__.__globals__", CK_FINDING_DANGEROUS},
        {"torch.serialization", "os.system", CK_FINDING_DANGEROUS},
        {"six.moves.builtins", "eval", CK_FINDING_DANGEROUS},
        {"torch._utils", "_rebuild_tensor_v2.__globals__", CK_FINDING_DANGEROUS},
        {"numpy", "ndarray.__class__.__subclasses__", CK_FINDING_DANGEROUS},
        {"builtins", "int.__class__.__base__", CK_FINDING_DANGEROUS},
        {"collections", "_sys.modules", CK_FINDING_DANGEROUS},
        {"random", "_os.system", CK_FINDING_DANGEROUS},
        {"_sys", "modules", CK_FINDING_DANGEROUS},
    };

    (void)state;
    assert_judged(rows, CK_ARRAY_LEN(rows));
}

/* The dot where the module ends is the file's choice. */
static void module_and_name_are_judged_as_one_path(void **state) {
    static const struct judged rows[] = {
        {"torch", "hub.load", CK_FINDING_DANGEROUS},
        {"torch", "serialization.load", CK_FINDING_DANGEROUS},
        {"torch", "serialization.load.__name__", CK_FINDING_DANGEROUS},
        {"torch", "jit._script.x", CK_FINDING_DANGEROUS},
        {"torch", "serialization.loader", CK_FINDING_UNKNOWN},
        {"torch", "nn.Module", CK_FINDING_UNKNOWN},
        {"joblib", "numpy_pickle.load", CK_FINDING_DANGEROUS},
        {"uuid", "_get_command_stdout", CK_FINDING_DANGEROUS},
        {"uuid", "UUID", CK_FINDING_CONTAINER},
        {"logging", "FileHandler", CK_FINDING_DANGEROUS},
        {"logging", "handlers.SocketHandler", CK_FINDING_DANGEROUS},
        {"logging", "getLogger", CK_FINDING_UNKNOWN},
        {"mine", "system.x.load", CK_FINDING_DANGEROUS},
        {"mine", "x.load", CK_FINDING_UNKNOWN},
    };
    char name[1100];

    (void)state;
    assert_judged(rows, CK_ARRAY_LEN(rows));
    memset(name, 'n', sizeof(name) - 1);
    name[1018] = 0; /* 5 + 1 + 1018 = 1024 */
    assert_int_equal(ck_finding_judge("first", name), CK_FINDING_UNKNOWN);
    name[1018] = 'n';
    name[1019] = 0;
    assert_int_equal(ck_finding_judge("first", name), CK_FINDING_DANGEROUS);
}

static void a_prefix_is_no_mark_of_trust(void **state) {
    static const struct judged rows[] = {
        {"torch._utils", "_rebuild_tensor_v4", CK_FINDING_UNKNOWN},
        {"torch._utils", "", CK_FINDING_UNKNOWN},
        {"torch", "FloatStorage HalfStorage", CK_FINDING_UNKNOWN},
        {"torch", "Float", CK_FINDING_UNKNOWN},
        {"torch.nn.modules.conv", "MyConv", CK_FINDING_UNKNOWN},
        {"collections", "namedtuple", CK_FINDING_UNKNOWN},
        {"torch", "_utils", CK_FINDING_UNKNOWN},
        {"mypackage.code", "Model", CK_FINDING_UNKNOWN},
        {"osmosis", "System", CK_FINDING_UNKNOWN},
        {"models.common", "C3", CK_FINDING_UNKNOWN},
        {"__main__", "Net", CK_FINDING_UNKNOWN},
        {"", "", CK_FINDING_UNKNOWN},
        {".", ".", CK_FINDING_UNKNOWN},
    };

    (void)state;
    assert_judged(rows, CK_ARRAY_LEN(rows));
}

static void a_path_of_more_than_65_pieces_is_dangerous(void **state) {
    char name[256];

    (void)state;
    for (size_t i = 0; i < sizeof(name); i++)
        name[i] = i % 2 == 0 ? 'a' : '.';
    name[2 * 64 + 1] = 0;
    assert_int_equal(ck_finding_judge("m", name), CK_FINDING_UNKNOWN);
    assert_int_equal(ck_finding_judge("m.n", name), CK_FINDING_DANGEROUS);
}

static void equal_findings_are_counted_and_the_first_place_is_kept(void **state) {
    struct ck_findings findings;

    (void)state;
    ck_findings_init(&findings);
    assert_int_equal(ck_findings_add(&findings, CK_FINDING_UNKNOWN, "a", 5, "GLOBAL", "m", "f", false), 0);
    assert_int_equal(ck_findings_add(&findings, CK_FINDING_UNKNOWN, "a", 9, "INST", "m", "f", true), 0);
    assert_int_equal(ck_findings_add(&findings, CK_FINDING_UNKNOWN, "b", 9, "GLOBAL", "m", "f", false), 1);
    assert_int_equal(ck_findings_add(&findings, CK_FINDING_DANGEROUS, "a", 9, "GLOBAL", "m", "f", false), 2);
    assert_int_equal(findings.count, 3);
    assert_int_equal(findings.items[0].count, 2);
    assert_int_equal(findings.items[0].offset, 5);
    assert_string_equal(findings.items[0].opcode, "GLOBAL");
    assert_true(findings.items[0].called);
    assert_false(findings.items[1].called);
    assert_int_equal(ck_findings_count(&findings, CK_FINDING_UNKNOWN), 2);
    assert_int_equal(ck_findings_count(&findings, CK_FINDING_STRUCTURE), 0);
    ck_findings_release(&findings);
    ck_findings_release(&findings);
}

static void a_flood_of_harmless_names_does_not_hide_a_dangerous_one(void **state) {
    struct ck_findings findings;
    char name[32];

    (void)state;
    ck_findings_init(&findings);
    for (int i = 0; i < CK_FINDINGS_MAX + 5; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        ck_findings_add(&findings, CK_FINDING_UNKNOWN, "", 0, "GLOBAL", "m", name, false);
    }
    assert_true(findings.truncated);
    assert_int_equal(findings.count, CK_FINDINGS_MAX - CK_FINDINGS_RESERVED);
    assert_int_equal(findings.dropped, CK_FINDINGS_RESERVED + 5);
    assert_int_equal(ck_findings_add(&findings, CK_FINDING_DANGEROUS, "", 0, "GLOBAL", "os", "system", true),
                     CK_FINDINGS_MAX - CK_FINDINGS_RESERVED);
    for (int i = 1; i < CK_FINDINGS_RESERVED; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        assert_true(ck_findings_add(&findings, CK_FINDING_DANGEROUS, "", 0, "GLOBAL", "os", name, true) !=
                    CK_FINDINGS_NONE);
    }
    assert_int_equal(findings.count, CK_FINDINGS_MAX);
    assert_int_equal(ck_findings_add(&findings, CK_FINDING_DANGEROUS, "", 0, "GLOBAL", "os", "one past", true),
                     CK_FINDINGS_NONE);
    ck_findings_release(&findings);
}

static void long_texts_are_cut(void **state) {
    struct ck_findings findings;
    char name[2000];

    (void)state;
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    ck_findings_init(&findings);
    ck_findings_add(&findings, CK_FINDING_UNKNOWN, name, 0, "GLOBAL", name, name, false);
    assert_int_equal(strlen(findings.items[0].module), CK_FINDING_TEXT_MAX);
    assert_string_equal(findings.items[0].module + CK_FINDING_TEXT_MAX - 3, "...");
    name[CK_FINDING_TEXT_MAX] = 0;
    ck_findings_add(&findings, CK_FINDING_STRUCTURE, "", 0, "", "", name, false);
    assert_string_equal(findings.items[1].name, name);
    ck_findings_release(&findings);
}

static void json_leaves_out_what_is_ordinary_unless_all_is_asked_for(void **state) {
    static const char some[] =
        "[{\"entry\":\"data.pkl\",\"offset\":7,\"opcode\":\"GLOBAL\",\"module\":\"os\",\"name\":\"system\","
        "\"class\":\"dangerous\",\"called\":true,\"count\":1}]";
    struct ck_findings findings;

    (void)state;
    ck_findings_init(&findings);
    ck_findings_add(&findings, CK_FINDING_TENSOR, "data.pkl", 1, "GLOBAL", "torch", "FloatStorage", false);
    ck_findings_add(&findings, CK_FINDING_DANGEROUS, "data.pkl", 7, "GLOBAL", "os", "system", true);
    for (int all = 0; all <= 1; all++) {
        _cleanup_(ck_buffer_release) struct ck_buffer out;
        struct ck_error err = {0};
        struct ck_json json;

        ck_buffer_init(&out, 65536);
        ck_json_init(&json, ck_json_sink_buffer, &out, &err);
        ck_findings_json(&findings, &json, all);
        assert_int_equal(ck_json_finish(&json), 0);
        if (all)
            assert_non_null(strstr(ck_buffer_text(&out), "\"class\":\"tensor\",\"called\":false"));
        else
            assert_string_equal(ck_buffer_text(&out), some);
    }
    ck_findings_release(&findings);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_rebuild_tensors_are_tensor),
        cmocka_unit_test(names_of_containers_modules_and_arrays_are_container),
        cmocka_unit_test(names_that_reach_the_system_or_an_interpreter_are_dangerous),
        cmocka_unit_test(attribute_paths_are_judged_piece_by_piece),
        cmocka_unit_test(module_and_name_are_judged_as_one_path),
        cmocka_unit_test(a_prefix_is_no_mark_of_trust),
        cmocka_unit_test(a_path_of_more_than_65_pieces_is_dangerous),
        cmocka_unit_test(equal_findings_are_counted_and_the_first_place_is_kept),
        cmocka_unit_test(a_flood_of_harmless_names_does_not_hide_a_dangerous_one),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(json_leaves_out_what_is_ordinary_unless_all_is_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
