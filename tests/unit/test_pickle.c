/* The inert pickle machine: every opcode by value, every limit at its bound and one past, and what hostile streams must
 * not do. */
#include "core/base/buffer.h"
#include "core/pickle/literal.h"
#include "core/pickle/machine.h"
#include "core/pickle/opcode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct run {
    struct ck_pickle pickle;
    struct ck_findings findings;
    struct ck_error err;
    int status;
};

static void run_release(struct run *run) {
    ck_pickle_release(&run->pickle);
    ck_findings_release(&run->findings);
}

static void run_limited(struct run *run, const void *bytes, size_t n, const struct ck_limits *limits) {
    struct ck_source source = ck_source_from_memory(bytes, n);

    memset(run, 0, sizeof(*run));
    ck_findings_init(&run->findings);
    run->status = ck_pickle_run(&source, "data.pkl", limits, &run->findings, &run->pickle, &run->err);
    if (run->status < 0)
        assert_null(run->pickle.values);
}

static void run_bytes(struct run *run, const void *bytes, size_t n) {
    run_limited(run, bytes, n, &ck_limits_default);
}

/* A literal with embedded NULs. */
#define RUN(run, text) run_bytes(run, text, sizeof(text) - 1)

/* ---- a value as text, so that a table can hold what is expected ---- */

static void show(const struct ck_pickle *pickle, ck_ref ref, int depth, struct ck_buffer *out);

static void show_list(const struct ck_pickle *pickle, const struct ck_value *value, const char *brackets, int depth,
                      struct ck_buffer *out) {
    ck_buffer_printf(out, "%c", brackets[0]);
    for (uint32_t i = 0; i < value->list.count; i++) {
        ck_buffer_add_text(out, i > 0 ? " " : "");
        show(pickle, value->list.items[i], depth + 1, out);
    }
    ck_buffer_printf(out, "%c", brackets[1]);
}

static void show_bytes(const struct ck_value *value, const char *prefix, struct ck_buffer *out) {
    ck_buffer_add_text(out, prefix);
    if (!value->bytes.data) {
        ck_buffer_printf(out, "@%llu+%llu", (unsigned long long)value->bytes.offset,
                         (unsigned long long)value->bytes.length);
        return;
    }
    assert_int_equal(value->bytes.data[value->bytes.length], 0);
    for (uint64_t i = 0; i < value->bytes.length; i++)
        ck_buffer_printf(out, value->bytes.data[i] > 32 && value->bytes.data[i] < 127 ? "%c" : "\\%02x",
                         value->bytes.data[i]);
}

static void show_call(const struct ck_pickle *pickle, const struct ck_value *value, int depth, struct ck_buffer *out) {
    ck_buffer_add_text(out, "call(");
    show(pickle, value->call.callee, depth + 1, out);
    ck_buffer_add_text(out, " ");
    show(pickle, value->call.arguments, depth + 1, out);
    const struct {
        const char *name;
        ck_ref ref;
    } parts[] = {{" keywords=", value->call.keywords},
                 {" state=", value->call.state},
                 {" items=", value->call.items},
                 {" pairs=", value->call.pairs}};
    for (size_t i = 0; i < CK_ARRAY_LEN(parts); i++)
        if (parts[i].ref != CK_REF_NONE) {
            ck_buffer_add_text(out, parts[i].name);
            show(pickle, parts[i].ref, depth + 1, out);
        }
    ck_buffer_add_text(out, ")");
}

static void show(const struct ck_pickle *pickle, ck_ref ref, int depth, struct ck_buffer *out) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);

    if (depth > 6) {
        ck_buffer_add_text(out, "~");
        return;
    }
    switch ((enum ck_value_kind)value->kind) {
    case CK_VALUE_NONE:
        ck_buffer_add_text(out, "None");
        break;
    case CK_VALUE_BOOL:
        ck_buffer_add_text(out, value->integer ? "True" : "False");
        break;
    case CK_VALUE_INT:
        ck_buffer_printf(out, "%lld", (long long)value->integer);
        break;
    case CK_VALUE_FLOAT:
        ck_buffer_printf(out, "%gf", value->real);
        break;
    case CK_VALUE_BIGINT:
        show_bytes(value, "big:", out);
        break;
    case CK_VALUE_TEXT:
        show_bytes(value, "t:", out);
        break;
    case CK_VALUE_BYTES:
        show_bytes(value, "b:", out);
        break;
    case CK_VALUE_TUPLE:
        show_list(pickle, value, "()", depth, out);
        break;
    case CK_VALUE_LIST:
        show_list(pickle, value, "[]", depth, out);
        break;
    case CK_VALUE_SET:
        show_list(pickle, value, "<>", depth, out);
        break;
    case CK_VALUE_DICT:
        show_list(pickle, value, "{}", depth, out);
        break;
    case CK_VALUE_PERSISTENT:
        ck_buffer_add_text(out, "id");
        show_list(pickle, value, "()", depth, out);
        break;
    case CK_VALUE_GLOBAL:
        ck_buffer_printf(out, "%s.%s", value->global.module, value->global.name);
        assert_int_equal(value->global.module_length, strlen(value->global.module));
        assert_int_equal(value->global.name_length, strlen(value->global.name));
        break;
    case CK_VALUE_CALL:
        show_call(pickle, value, depth, out);
        break;
    case CK_VALUE_OPAQUE:
        ck_buffer_add_text(out, "opaque");
        break;
    }
}

static void assert_shown(const struct run *run, const char *name, const char *expected) {
    _cleanup_(ck_buffer_release) struct ck_buffer out;

    ck_buffer_init(&out, 1 << 20);
    if (run->status < 0)
        fail_msg("%s: %s", name, run->err.message);
    show(&run->pickle, run->pickle.root, 0, &out);
    if (strcmp(ck_buffer_text(&out), expected) != 0)
        fail_msg("%s: %s, expected %s", name, ck_buffer_text(&out), expected);
}

/* ---- every opcode ---- */

struct opcode_case {
    const char *opcode, *bytes;
    size_t n;
    const char *expected;
};

#define CASE(opcode, bytes, expected)                                                                                  \
    { #opcode, bytes, sizeof(bytes) - 1, expected }

static const struct opcode_case opcode_cases[] = {
    CASE(MARK, "(K\x01K\x02t.", "(1 2)"),
    CASE(EMPTY_TUPLE, ").", "()"),
    CASE(STOP, "NK\x07.", "7"),
    CASE(POP,
         "K\x01K\x02"
         "0.",
         "1"),
    CASE(POP, "K\x01(0.", "1"), /* a bare mark is what it takes */
    CASE(POP_MARK,
         "K\x01(K\x02K\x03"
         "1.",
         "1"),
    CASE(DUP,
         "K\x05"
         "2\x86.",
         "(5 5)"),
    CASE(BINBYTES, "B\x02\x00\x00\x00\x00z.", "b:\\00z"),
    CASE(SHORT_BINBYTES,
         "C\x03"
         "abc.",
         "b:abc"),
    CASE(SHORT_BINBYTES, "C\x00.", "b:"),
    CASE(FLOAT, "F-1.25e2\n.", "-125f"),
    CASE(FLOAT, "Finf\n.", "inff"),
    CASE(BINFLOAT, "G\x3f\xf8\x00\x00\x00\x00\x00\x00.", "1.5f"),
    CASE(INT, "I-42\n.", "-42"),
    CASE(INT, "I01\n.", "True"),
    CASE(INT, "I00\n.", "False"),
    CASE(INT, "I1\n.", "1"),
    CASE(INT, "I0\n.", "0"),
    CASE(INT, "I9223372036854775807\n.", "9223372036854775807"),
    CASE(INT, "I9223372036854775808\n.", "big:\\00\\00\\00\\00\\00\\00\\00\\80\\00"),
    CASE(BININT, "J\xfe\xff\xff\xff.", "-2"),
    CASE(BININT, "J\xff\xff\xff\x7f.", "2147483647"),
    CASE(BININT1, "K\xff.", "255"),
    CASE(LONG, "L-9223372036854775808L\n.", "-9223372036854775808"),
    CASE(LONG, "L-9223372036854775809L\n.", "big:\\ff\\ff\\ff\\ff\\ff\\ff\\ff\\7f\\ff"),
    CASE(LONG, "L0L\n.", "0"),
    CASE(LONG, "L5\n.", "5"),
    CASE(BININT2, "M\x34\x12.", "4660"),
    CASE(NONE, "N.", "None"),
    CASE(PERSID, "Pkey 7\n.", "id(t:key\\207)"),
    CASE(BINPERSID, "K\x07Q.", "id(7)"),
    CASE(REDUCE, "cm\nf\nK\x01\x85R.", "call(m.f (1))"),
    CASE(STRING, "S'a\\n\\x41\\101\\\\\\'\\q'\n.", "t:a\\0aAA\\'\\q"),
    CASE(STRING, "S\"it's\"\n.", "t:it's"),
    CASE(STRING, "S''\n.", "t:"),
    CASE(BINSTRING, "T\x02\x00\x00\x00hi.", "t:hi"),
    CASE(SHORT_BINSTRING, "U\x02hi.", "t:hi"),
    CASE(UNICODE, "Va\\u0416\\U0001f600\xe9\\\\u0041\\\n.", "t:a\\d0\\96\\f0\\9f\\98\\80\\c3\\a9\\\\u0041\\"),
    CASE(UNICODE, "V\n.", "t:"),
    CASE(BINUNICODE, "X\x02\x00\x00\x00hi.", "t:hi"),
    CASE(EMPTY_LIST, "].", "[]"),
    CASE(APPEND,
         "]K\x01"
         "aK\x02"
         "a.",
         "[1 2]"),
    CASE(BUILD, "cm\nC\n)\x81}b.", "call(m.C () state={})"),
    CASE(BUILD, "}}b.", "{}"), /* OrderedDict's metadata where a writer made it a dict */
    CASE(GLOBAL, "cos.path\njoin\n.", "os.path.join"),
    CASE(DICT,
         "(K\x01K\x02K\x03K\x04"
         "d.",
         "{1 2 3 4}"),
    CASE(APPENDS,
         "](K\x01K\x02"
         "e(K\x03"
         "e.",
         "[1 2 3]"),
    CASE(APPENDS,
         "cm\nC\n)\x81(K\x01"
         "e.",
         "call(m.C () items=[1])"),
    CASE(GET, "K\x07p300\n0g300\n.", "7"),
    CASE(BINGET,
         "K\x07q\x05"
         "0h\x05.",
         "7"),
    CASE(INST, "(K\x01im\nC\n.", "call(m.C (1))"),
    CASE(LONG_BINGET,
         "K\x07q\x05"
         "0j\x05\x00\x00\x00.",
         "7"),
    CASE(LIST, "(K\x01K\x02l.", "[1 2]"),
    CASE(OBJ, "(cm\nC\nK\x01o.", "call(m.C (1))"),
    CASE(PUT, "K\x07p3\n0h\x03.", "7"),
    CASE(BINPUT,
         "K\x07q\x03"
         "0h\x03.",
         "7"),
    CASE(LONG_BINPUT,
         "K\x07r\x03\x00\x00\x00"
         "0h\x03.",
         "7"),
    CASE(SETITEM, "}K\x01K\x02s.", "{1 2}"),
    CASE(SETITEM, "cm\nC\n)\x81K\x01K\x02s.", "call(m.C () pairs={1 2})"),
    CASE(TUPLE, "(K\x01t.", "(1)"),
    CASE(TUPLE, "(t.", "()"),
    CASE(SETITEMS, "}(K\x01K\x02K\x03K\x04u.", "{1 2 3 4}"),
    CASE(EMPTY_DICT, "}.", "{}"),
    CASE(PROTO, "\x80\x02N.", "None"),
    CASE(NEWOBJ, "cm\nC\n)\x81.", "call(m.C ())"),
    CASE(EXT1, "\x82\x01.", "opaque"),
    CASE(EXT2, "\x83\x01\x00.", "opaque"),
    CASE(EXT4, "\x84\x01\x00\x00\x00.", "opaque"),
    CASE(TUPLE1, "K\x01\x85.", "(1)"),
    CASE(TUPLE2, "K\x01K\x02\x86.", "(1 2)"),
    CASE(TUPLE3, "K\x01K\x02K\x03\x87.", "(1 2 3)"),
    CASE(NEWTRUE, "\x88.", "True"),
    CASE(NEWFALSE, "\x89.", "False"),
    CASE(LONG1, "\x8a\x00.", "0"),
    CASE(LONG1, "\x8a\x01\xff.", "-1"),
    CASE(LONG1, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f.", "9223372036854775807"),
    CASE(LONG1, "\x8a\x09\x01\x00\x00\x00\x00\x00\x00\x00\x00.", "1"),
    CASE(LONG1, "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
         "big:l\\fc\\9cF\\f9\\20j\\a8P\\19"), /* torch's magic */
    CASE(LONG4, "\x8b\x02\x00\x00\x00\x00\x80.", "-32768"),
    CASE(SHORT_BINUNICODE, "\x8c\x02hi.", "t:hi"),
    CASE(BINUNICODE8, "\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi.", "t:hi"),
    CASE(BINBYTES8, "\x8e\x02\x00\x00\x00\x00\x00\x00\x00hi.", "b:hi"),
    CASE(EMPTY_SET, "\x8f.", "<>"),
    CASE(ADDITEMS, "\x8f(K\x01K\x02\x90.", "<1 2>"),
    CASE(FROZENSET, "(K\x01K\x02\x91.", "<1 2>"),
    CASE(NEWOBJ_EX, "cm\nC\n)}\x92.", "call(m.C () keywords={})"),
    CASE(STACK_GLOBAL,
         "\x8c\x01m\x8c\x03"
         "C.x\x93.",
         "m.C.x"),
    CASE(MEMOIZE,
         "K\x07\x94"
         "0h\x00.",
         "7"),
    CASE(FRAME, "\x80\x04\x95\x02\x00\x00\x00\x00\x00\x00\x00N.", "None"),
    CASE(BYTEARRAY8, "\x96\x02\x00\x00\x00\x00\x00\x00\x00hi.", "b:hi"),
    CASE(NEXT_BUFFER, "\x97.", "opaque"),
    CASE(READONLY_BUFFER, "\x96\x01\x00\x00\x00\x00\x00\x00\x00h\x98.", "b:h"),
};

static void each_of_the_68_opcodes_gives_its_value(void **state) {
    struct run run;

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(opcode_cases); i++) {
        const struct opcode_case *c = &opcode_cases[i];

        run_bytes(&run, c->bytes, c->n);
        assert_shown(&run, c->opcode, c->expected);
        assert_int_equal(run.pickle.length, c->n);
        run_release(&run);
    }
}

static void the_table_of_cases_holds_each_of_the_68_opcodes(void **state) {
    size_t opcodes = 0, covered = 0;

    (void)state;
#define X(name, code, argument, operation)                                                                             \
    opcodes++;                                                                                                         \
    for (size_t i = 0; i < CK_ARRAY_LEN(opcode_cases); i++)                                                            \
        if (strcmp(opcode_cases[i].opcode, #name) == 0 && memchr(opcode_cases[i].bytes, code, opcode_cases[i].n)) {    \
            covered++;                                                                                                 \
            break;                                                                                                     \
        }
    CK_OPCODES(X)
#undef X
    assert_int_equal(opcodes, 68);
    assert_int_equal(covered, 68);
}

/* ---- broken streams ---- */

static void assert_fails(const void *bytes, size_t n, int code, const char *part) {
    struct run run;

    run_bytes(&run, bytes, n);
    if (run.status != code || !strstr(run.err.message, part))
        fail_msg("%d \"%s\", expected %s with \"%s\"", run.status, run.err.message, ck_error_row(code)->name, part);
    assert_int_equal(run.err.code, code);
    assert_string_equal(run.err.where, "data.pkl");
    run_release(&run);
}

#define CORRUPT(text, part)   assert_fails(text, sizeof(text) - 1, CK_E_PICKLE_CORRUPT, part)
#define TRUNCATED(text, part) assert_fails(text, sizeof(text) - 1, CK_E_TRUNCATED, part)

static void popping_from_an_empty_stack_is_refused(void **state) {
    (void)state;
    CORRUPT(".", "STOP at byte 0");
    CORRUPT("0.", "POP at byte 0");
    CORRUPT("2.", "DUP at byte 0");
    CORRUPT("Q.", "BINPERSID at byte 0");
    CORRUPT("NR.", "REDUCE at byte 1");
    CORRUPT("Na.", "APPEND at byte 1");
    CORRUPT("Nb.", "BUILD at byte 1");
    CORRUPT("NNs.", "SETITEM at byte 2");
    CORRUPT("N\x81.", "NEWOBJ at byte 1");
    CORRUPT("NN\x92.", "NEWOBJ_EX at byte 2");
    CORRUPT("\x85.", "TUPLE1 at byte 0");
    CORRUPT("N\x86.", "TUPLE2 at byte 1");
    CORRUPT("NN\x87.", "TUPLE3 at byte 2");
    CORRUPT("N\x93.", "STACK_GLOBAL at byte 1");
    CORRUPT("\x94.", "MEMOIZE at byte 0");
    CORRUPT("q\x00.", "BINPUT at byte 0");
    CORRUPT("r\x00\x00\x00\x00.", "LONG_BINPUT at byte 0");
    CORRUPT("p0\n.", "PUT at byte 0");
    CORRUPT("\x98.", "READONLY_BUFFER at byte 0");
    CORRUPT("(e.", "APPENDS at byte 1");
    CORRUPT("(u.", "SETITEMS at byte 1");
    CORRUPT("(\x90.", "ADDITEMS at byte 1");
    CORRUPT("(o.", "OBJ at byte 1");
}

static void popping_below_the_mark_is_refused(void **state) {
    (void)state;
    CORRUPT("NN(\x86.", "holds 0 above the mark");
    CORRUPT("](Na.", "APPEND at byte 3");
    CORRUPT("}(NNs.", "SETITEM at byte 4");
    CORRUPT("N(.", "STOP at byte 2");
    CORRUPT("]((Ne.", "APPENDS at byte 4");
}

static void a_missing_mark_is_refused(void **state) {
    (void)state;
    CORRUPT("N1.", "POP_MARK at byte 1");
    CORRUPT("Nd.", "there is no mark");
    CORRUPT("]Ne.", "there is no mark");
    CORRUPT("Nim\nC\n.", "there is no mark");
    CORRUPT("Nl.", "there is no mark");
    CORRUPT("No.", "there is no mark");
    CORRUPT("Nt.", "there is no mark");
    CORRUPT("}u.", "there is no mark");
    CORRUPT("\x8f\x90.", "there is no mark");
    CORRUPT("\x91.", "there is no mark");
}

static void a_memo_slot_that_was_never_set_is_refused(void **state) {
    (void)state;
    CORRUPT("h\x00.", "memo slot 0");
    CORRUPT("Nq\x01h\x02.", "memo slot 2");
    CORRUPT("j\xff\xff\xff\xff.", "memo slot 4294967295");
    CORRUPT("Nr\xff\xff\xff\xffj\xfe\xff\xff\xff.", "memo slot 4294967294");
    CORRUPT("g7\n.", "memo slot 7");
}

static void adding_to_what_is_no_container_of_that_kind_is_refused(void **state) {
    (void)state;
    CORRUPT("}Na.", "it adds to a dict, which is not a list"); /* CVE-2026-24747 */
    CORRUPT("]NNs.", "it adds to a list, which is not a dict");
    CORRUPT("NNNs.", "it adds to None");
    CORRUPT("K\x01(NNu.", "it adds to an int");
    CORRUPT("](N\x90.", "which is not a set");
    CORRUPT(")Na.", "it adds to a tuple");
    CORRUPT("cos\nenviron\nNNs.", "it adds to a global");
    CORRUPT("K\x01}b.", "an int takes no state");
    CORRUPT("N)R.", "it calls None");
    CORRUPT("\x8c\x01m)\x81.", "it calls text");
    CORRUPT("N\x98.", "None is no buffer");
}

static void odd_keys_and_values_are_refused(void **state) {
    (void)state;
    CORRUPT("(Nd.", "an odd number");
    CORRUPT("}(NNNu.", "an odd number");
}

static void malformed_lines_are_refused(void **state) {
    (void)state;
    CORRUPT("I\n.", "no decimal integer");
    CORRUPT("I010\n.", "no decimal integer"); /* 10 or 8: readers differ */
    CORRUPT("I0x10\n.", "no decimal integer");
    CORRUPT("I 1\n.", "no decimal integer");
    CORRUPT("LL\n.", "no decimal integer");
    CORRUPT("F0x1p3\n.", "no floating point number");
    CORRUPT("F1.5x\n.", "no floating point number");
    CORRUPT("F\n.", "no floating point number");
    CORRUPT("Sabc\n.", "no quoted string");
    CORRUPT("S'abc\"\n.", "no quoted string");
    CORRUPT("S'\n.", "no quoted string");
    CORRUPT("S\n.", "no quoted string");
    CORRUPT("S'\\x4'\n.", "no quoted string");
    CORRUPT("S'\\'\n.", "no quoted string");
    CORRUPT("V\\u12\n.", "malformed \\u escape");
    CORRUPT("V\\U00110000\n.", "malformed \\u escape");
    CORRUPT("Np-1\n.", "no index of the memo");
    CORRUPT("Np4294967296\n.", "no index of the memo");
    CORRUPT("c\nf\n.", "a global without a name");
    CORRUPT("cm\n\n.", "a global without a name");
    CORRUPT("co\0s\nf\n.", "a NUL byte");
    CORRUPT("\x82\x00.", "extension code 0");
    CORRUPT("T\xff\xff\xff\xff.", "the length is negative (-1)");
    CORRUPT("\x8b\x00\x00\x00\x80.", "the length is negative");
    CORRUPT("\xff.", "0xff is no opcode");
}

static void cut_off_streams_are_truncated_at_every_byte(void **state) {
    static const char whole[] = "\x80\x04\x95\x02\x00\x00\x00\x00\x00\x00\x00}(\x8c\x01"
                                "aI12\nX\x02\x00\x00\x00hiG\x3f\xf8\x00\x00\x00\x00"
                                "\x00\x00V\\u0416\nS'x'\ncm\nf\nNu.";
    struct run run;

    (void)state;
    RUN(&run, whole);
    assert_shown(&run, "whole", "{t:a 12 t:hi 1.5f t:\\d0\\96 t:x m.f None}");
    run_release(&run);
    for (size_t n = 0; n + 1 < sizeof(whole) - 1; n++)
        assert_fails(whole, n, CK_E_TRUNCATED, "are left");
}

static void a_declared_length_beyond_the_input_is_refused_before_anything_is_allocated(void **state) {
    (void)state;
    TRUNCATED("\x8e\x00\xe4\x0b\x54\x02\x00\x00\x00"
              "abcdefghijklmnopqrst.",
              "10000000000 bytes are needed at byte 9, but only 21");
    TRUNCATED("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
              "abc.",
              "18446744073709551615 bytes");
    TRUNCATED("X\xff\xff\xff\xff"
              "abc.",
              "4294967295 bytes");
    TRUNCATED("B\xff\xff\xff\xff"
              "abc.",
              "4294967295 bytes");
    TRUNCATED("T\xff\xff\xff\x7f"
              "abc.",
              "2147483647 bytes");
    TRUNCATED("\x8b\xff\xff\xff\x7f"
              "abc.",
              "2147483647 bytes");
    TRUNCATED("\x8a\x05"
              "abc.",
              "5 bytes");
    TRUNCATED("\x96\x00\x00\x00\x00\x00\x00\x00\x80"
              "abc.",
              "9223372036854775808 bytes");
}

/* ---- shapes of graphs ---- */

static void a_list_and_a_dict_may_hold_themselves(void **state) {
    struct run run;

    (void)state;
    RUN(&run, "]q\x00h\x00"
              "a.");
    assert_int_equal(run.status, 0);
    assert_int_equal(ck_pickle_get(&run.pickle, run.pickle.root)->list.items[0], run.pickle.root);
    run_release(&run);
    RUN(&run, "}q\x00K\x01h\x00s.");
    assert_int_equal(run.status, 0);
    assert_int_equal(ck_pickle_get(&run.pickle, run.pickle.root)->list.items[1], run.pickle.root);
    run_release(&run);
}

static void billion_laughs_cost_what_their_opcodes_cost(void **state) {
    char bytes[4096];
    size_t n = 0;
    struct run run;

    (void)state;
    bytes[n++] = 'N';
    for (int i = 0; i < 1000; i++) {
        bytes[n++] = '2';
        bytes[n++] = '\x86';
    }
    bytes[n++] = '.';
    run_bytes(&run, bytes, n);
    assert_int_equal(run.status, 0);
    assert_true(run.pickle.count < 1010);
    run_release(&run);
}

static void a_flood_of_none_makes_no_values(void **state) {
    size_t n = 900000;
    uint8_t *bytes = malloc(n);
    struct run run;

    (void)state;
    memset(bytes, 'N', n);
    bytes[n - 1] = '.';
    run_bytes(&run, bytes, n);
    assert_int_equal(run.status, 0);
    assert_int_equal(run.pickle.count, CK_REF_FIRST_FREE);
    run_release(&run);
    free(bytes);
}

static void a_huge_memo_index_costs_one_slot(void **state) {
    struct ck_limits limits = ck_limits_default;
    struct run run;

    (void)state;
    limits.pickle_memory = 16384;
    run_limited(&run, "K\x07r\xff\xff\xff\x7fp3000000000\n0j\xff\xff\xff\x7fg3000000000\n\x86.", 41, &limits);
    assert_shown(&run, "PUT", "(7 7)");
    run_release(&run);
}

/* The dense part of the memo grows over an index that was hashed before: the older value must not come back, nor be
 * lost. */
static void memo_indices_survive_the_growth_of_the_memo(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer bytes;
    struct run run;

    (void)state;
    ck_buffer_init(&bytes, 1 << 20);
    ck_buffer_add(&bytes,
                  "M\x11\x11r\xe8\x03\x00\x00"
                  "0",
                  9); /* 1000 := 0x1111 */
    for (uint32_t i = 0; i < 1500; i++)
        if (i != 1000) {
            uint8_t op[] = {'M', (uint8_t)i, (uint8_t)(i >> 8), 'r', (uint8_t)i, (uint8_t)(i >> 8), 0, 0, '0'};

            ck_buffer_add(&bytes, op, sizeof(op));
        }
    ck_buffer_add(&bytes, "j\xe8\x03\x00\x00j\xe7\x03\x00\x00\x86\x94.", 13);
    run_bytes(&run, bytes.data, bytes.length);
    assert_shown(&run, "memo", "(4369 999)");
    run_release(&run);
    bytes.length -= 1;
    /* MEMOIZE counts different indices: it set 1500. */
    ck_buffer_add(&bytes,
                  "0M\x22\x22r\xe8\x03\x00\x00"
                  "0j\xe8\x03\x00\x00j\xdc\x05\x00\x00\x86.",
                  22);
    run_bytes(&run, bytes.data, bytes.length);
    assert_shown(&run, "memo", "(8738 (4369 999))");
    run_release(&run);
}

static void long_strings_stay_ranges_of_the_input(void **state) {
    size_t n = CK_PICKLE_INLINE + 1;
    uint8_t *bytes = malloc(n + 16);
    struct run run;

    (void)state;
    memset(bytes, 'x', n + 16);
    for (int one_more = 0; one_more <= 1; one_more++) {
        size_t length = CK_PICKLE_INLINE + (size_t)one_more;
        const struct ck_value *value;

        memcpy(bytes, "X\0\x10\0\0", 5);
        bytes[1] = (uint8_t)one_more;
        bytes[5 + length] = '.';
        run_bytes(&run, bytes, length + 6);
        assert_int_equal(run.status, 0);
        value = ck_pickle_get(&run.pickle, run.pickle.root);
        assert_int_equal(value->bytes.length, length);
        assert_int_equal(value->bytes.data == NULL, one_more);
        assert_int_equal(value->bytes.offset, 5);
        run_release(&run);
        bytes[5 + length] = 'x';
    }
    free(bytes);
}

static void a_file_is_read_like_memory_across_windows(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer bytes;
    struct ck_source source, part;
    struct run run, from_memory;
    FILE *file = tmpfile();
    const struct ck_value *list;

    (void)state;
    ck_buffer_init(&bytes, 1 << 24);
    ck_buffer_add_text(&bytes, "junk(");
    for (int i = 0; i < 30000; i++)
        ck_buffer_printf(&bytes, "I%d\nV%d\\u0416\n", i, i);
    ck_buffer_printf(&bytes, "S'%070000d'\nl.more", 0);
    assert_int_equal(fwrite(bytes.data, 1, bytes.length, file), bytes.length);
    fflush(file);
    memset(&run, 0, sizeof(run));
    ck_findings_init(&run.findings);
    assert_int_equal(ck_source_from_fd(fileno(file), &source, &run.err), 0);
    assert_int_equal(ck_source_part(&source, 4, source.length - 4, &part, &run.err), 0);
    assert_int_equal(ck_pickle_run(&part, "", &ck_limits_default, &run.findings, &run.pickle, &run.err), 0);
    run_bytes(&from_memory, bytes.data + 4, bytes.length - 4);
    assert_int_equal(run.pickle.length, bytes.length - 8);
    assert_int_equal(from_memory.pickle.length, run.pickle.length);
    assert_int_equal(run.pickle.count, from_memory.pickle.count);
    list = ck_pickle_get(&run.pickle, run.pickle.root);
    assert_int_equal(list->list.count, 60001);
    for (uint32_t i = 0; i < 30000; i++) {
        char text[16];

        snprintf(text, sizeof(text), "%u\xd0\x96", i);
        assert_int_equal(ck_pickle_get(&run.pickle, list->list.items[2 * i])->integer, i);
        assert_true(ck_pickle_text_equal(&run.pickle, list->list.items[2 * i + 1], text));
    }
    assert_int_equal(ck_pickle_get(&run.pickle, list->list.items[60000])->bytes.length, 70000);
    run_release(&run);
    run_release(&from_memory);
    fclose(file);
}

static void equal_globals_are_one_value(void **state) {
    struct run run;
    const struct ck_value *pair;

    (void)state;
    RUN(&run, "cm\nf\n\x8c\x01m\x8c\x01"
              "f\x93\x86.");
    assert_int_equal(run.status, 0);
    pair = ck_pickle_get(&run.pickle, run.pickle.root);
    assert_int_equal(pair->list.items[0], pair->list.items[1]);
    assert_true(ck_pickle_is_global(&run.pickle, pair->list.items[0], "m", "f"));
    assert_int_equal(run.findings.count, 1);
    assert_int_equal(run.findings.items[0].count, 2);
    run_release(&run);
}

/* ---- limits: at the bound and one past ---- */

static void assert_limit(const void *bytes, size_t n, const struct ck_limits *limits, bool passes,
                         const char *setting) {
    struct run run;

    run_limited(&run, bytes, n, limits);
    if (passes) {
        if (run.status < 0)
            fail_msg("%s", run.err.message);
    } else {
        assert_int_equal(run.status, CK_E_PICKLE_LIMIT);
        assert_non_null(strstr(run.err.message, setting));
        assert_non_null(strstr(ck_error_hint(&run.err), setting));
    }
    run_release(&run);
}

static void each_limit_holds_at_its_bound_and_refuses_one_past(void **state) {
    struct ck_limits limits;

    (void)state;
    for (int past = 0; past <= 1; past++) {
        limits = ck_limits_default;
        limits.pickle_stack = 3 - (uint64_t)past;
        assert_limit("NNN.", 4, &limits, !past, "--limit-pickle-stack");
        limits = ck_limits_default;
        limits.pickle_marks = 3 - (uint64_t)past;
        assert_limit("(((N.", 5, &limits, !past, "--limit-pickle-marks");
        limits = ck_limits_default;
        limits.pickle_opcodes = 4 - (uint64_t)past;
        assert_limit("NNN.", 4, &limits, !past, "--limit-pickle-opcodes");
        limits = ck_limits_default;
        limits.pickle_bytes = 7 - (uint64_t)past;
        assert_limit("N\x8c\x03"
                     "abc.",
                     7, &limits, !past, "--limit-pickle-bytes");
        /* What follows STOP does not count. */
        assert_limit("N\x8c\x03"
                     "abc.and more",
                     15, &limits, !past, "--limit-pickle-bytes");
    }
}

static void the_memory_limit_has_a_bound_below_which_nothing_passes(void **state) {
    static const char bytes[] =
        "](\x8c\x05hello\x94"
        "cm\nf\n)R\x94}K\x01r\x00\x00\x01\x00sM\x01\x02\x8a\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09"
        "e.";
    struct ck_limits limits = ck_limits_default;
    uint64_t fails = 0, passes = CK_MIB;

    (void)state;
    while (passes - fails > 1) {
        struct run run;

        limits.pickle_memory = (fails + passes) / 2;
        run_limited(&run, bytes, sizeof(bytes) - 1, &limits);
        if (run.status == 0)
            passes = limits.pickle_memory;
        else
            fails = limits.pickle_memory;
        run_release(&run);
    }
    limits.pickle_memory = passes;
    assert_limit(bytes, sizeof(bytes) - 1, &limits, true, "");
    limits.pickle_memory = passes - 1;
    assert_limit(bytes, sizeof(bytes) - 1, &limits, false, "--limit-pickle-memory");
    assert_true(passes < 8192);
}

static void values_cost_at_most_24_bytes_for_each_byte_of_the_pickle(void **state) {
    size_t n = 2000000;
    uint8_t *bytes = malloc(n);

    (void)state;
    /* An empty list and its removal: one value for two bytes. */
    for (size_t i = 0; i < n; i++)
        bytes[i] = i % 2 == 0 ? ']' : '0';
    bytes[n - 2] = 'N';
    bytes[n - 1] = '.';
    assert_limit(bytes, n, &ck_limits_default, true, "");
    memset(bytes, ']', 900000);
    assert_limit(bytes, 900000, &ck_limits_default, false, "--limit-pickle-memory");
    free(bytes);
}

static void decimals_hold_4300_digits_and_no_more(void **state) {
    char line[4400];
    struct ck_literal_int literal;
    struct run run;

    (void)state;
    memset(line, '9', sizeof(line));
    assert_true(ck_literal_int(line, CK_LITERAL_DIGITS_MAX, &literal));
    assert_int_equal(literal.length, 1786); /* (10**4300 - 1).bit_length() == 14285 */
    assert_false(ck_literal_int(line, CK_LITERAL_DIGITS_MAX + 1, &literal));
    line[0] = 'L';
    memcpy(line + 1 + 4300, "L\n.", 3);
    run_bytes(&run, line, 4304);
    assert_int_equal(run.status, 0);
    assert_int_equal(ck_pickle_get(&run.pickle, run.pickle.root)->kind, CK_VALUE_BIGINT);
    run_release(&run);
    memset(line + 1, '9', sizeof(line) - 1);
    memcpy(line + 1 + 4301, "L\n.", 3);
    assert_fails(line, 4305, CK_E_PICKLE_CORRUPT, "no decimal integer");
}

static void names_hold_4096_bytes_and_no_more(void **state) {
    char bytes[4200];

    (void)state;
    for (size_t past = 0; past <= 1; past++) {
        struct run run;
        size_t n = 4096 + past;

        memset(bytes, 'm', sizeof(bytes));
        bytes[0] = 'c';
        memcpy(bytes + 1 + n, "\nf\n.", 4);
        run_bytes(&run, bytes, n + 5);
        assert_int_equal(run.status, past ? CK_E_PICKLE_CORRUPT : 0);
        run_release(&run);
        memcpy(bytes, "X\0\x10\0\0", 5);
        bytes[1] = (char)past;
        memset(bytes + 5, 'm', n);
        memcpy(bytes + 5 + n,
               "\x8c\x01"
               "f\x93.",
               5);
        run_bytes(&run, bytes, n + 10);
        assert_int_equal(run.status, past ? CK_E_PICKLE_CORRUPT : 0);
        run_release(&run);
    }
}

/* ---- findings ---- */

static const struct ck_finding *find(const struct run *run, enum ck_finding_class class_, const char *name) {
    for (size_t i = 0; i < run->findings.count; i++)
        if (run->findings.items[i].class_ == class_ && strcmp(run->findings.items[i].name, name) == 0)
            return &run->findings.items[i];
    return NULL;
}

static void every_way_to_call_marks_the_callee(void **state) {
    static const char *const calls[] = {"cos\nsystem\n)R.", "cos\nsystem\n)\x81.", "cos\nsystem\n)}\x92.",
                                        "(ios\nsystem\n.",  "(cos\nsystem\no.",    "(cos\nsystem\no0N."};

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(calls); i++) {
        const struct ck_finding *finding;
        struct run run;

        run_bytes(&run, calls[i], strlen(calls[i]));
        assert_int_equal(run.status, 0);
        finding = find(&run, CK_FINDING_DANGEROUS, "system");
        assert_non_null(finding);
        assert_true(finding->called);
        assert_int_equal(finding->count, 1);
        assert_string_equal(finding->module, "os");
        assert_string_equal(finding->entry, "data.pkl");
        run_release(&run);
    }
}

static void a_global_that_is_not_called_is_not_marked(void **state) {
    struct run run;

    (void)state;
    RUN(&run, "Ncos\nsystem\n.");
    assert_false(find(&run, CK_FINDING_DANGEROUS, "system")->called);
    assert_int_equal(find(&run, CK_FINDING_DANGEROUS, "system")->offset, 1);
    assert_string_equal(find(&run, CK_FINDING_DANGEROUS, "system")->opcode, "GLOBAL");
    run_release(&run);
}

static void a_class_that_is_rebuilt_or_persistent_is_called_too(void **state) {
    struct run run;
    ck_ref class_;

    (void)state;
    RUN(&run, "ccopy_reg\n_reconstructor\n(cm\nC\nc__builtin__\nobject\nNtR}b.");
    assert_int_equal(run.status, 0);
    assert_true(find(&run, CK_FINDING_UNKNOWN, "C")->called);
    assert_true(ck_pickle_class(&run.pickle, run.pickle.root, &class_));
    assert_true(ck_pickle_is_global(&run.pickle, class_, "m", "C"));
    run_release(&run);
    RUN(&run, "(U\x06modulecm\nC\nU\x01"
              "fU\x01stQ)\x81}b.");
    assert_int_equal(run.status, 0);
    assert_true(find(&run, CK_FINDING_UNKNOWN, "C")->called);
    assert_true(ck_pickle_class(&run.pickle, run.pickle.root, &class_));
    assert_true(ck_pickle_is_global(&run.pickle, class_, "m", "C"));
    run_release(&run);
}

static void findings_survive_a_broken_pickle(void **state) {
    struct run run;

    (void)state;
    RUN(&run, "cos\nsystem\n)R0h\x07.");
    assert_int_equal(run.status, CK_E_PICKLE_CORRUPT);
    assert_true(find(&run, CK_FINDING_DANGEROUS, "system")->called);
    run_release(&run);
}

static void assert_finding(const void *bytes, size_t n, enum ck_finding_class class_, const char *sentence) {
    struct run run;

    run_bytes(&run, bytes, n);
    if (run.status < 0)
        fail_msg("%s: %s", sentence, run.err.message);
    if (!find(&run, class_, sentence))
        fail_msg("not found: %s", sentence);
    run_release(&run);
}

#define FINDING(text, class_, sentence) assert_finding(text, sizeof(text) - 1, CK_FINDING_##class_, sentence)

static void what_readers_read_differently_is_found(void **state) {
    (void)state;
    FINDING("\x80\x02N\x80\x02.", STRUCTURE, "PROTO is not the first opcode");
    FINDING("N\x80\x02.", STRUCTURE, "PROTO is not the first opcode");
    FINDING("\x80\x06N.", STRUCTURE, "the protocol is above 5");
    FINDING("N.more", STRUCTURE, "bytes follow STOP");
    FINDING("\x95\xff\x00\x00\x00\x00\x00\x00\x00N.", STRUCTURE, "a frame ends behind the end of the input");
    FINDING("\x95\xff\xff\xff\xff\xff\xff\xff\xffN.", STRUCTURE, "a frame ends behind the end of the input");
    FINDING("\x95\x02\x00\x00\x00\x00\x00\x00\x00\x8c\x03"
            "abc.",
            DANGEROUS, "an argument crosses the end of its frame");
    FINDING("\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x95\x02\x00\x00\x00\x00\x00\x00\x00N.", DANGEROUS,
            "a frame begins inside a frame");
    FINDING("\x97.", STRUCTURE, "a buffer that is not in the file is asked for");
    FINDING("\x82\x01.", UNKNOWN, "a code of the extension registry stands for a global");
    FINDING("ctorch\n_utils\n}b.", DANGEROUS, "BUILD changes a bare global");
    FINDING("cm\nf\n)R)R.", UNKNOWN, "a computed value is called");
    FINDING("cm\nf\n)R\x8c\x01x\x93.", DANGEROUS, "the names of a global are computed");
    FINDING("\x8c\x01xcm\nf\n)R\x93.", DANGEROUS, "the names of a global are computed");
}

static void a_plain_pickle_has_no_structure_findings(void **state) {
    struct run run;

    (void)state;
    RUN(&run, "\x80\x04\x95\x0e\x00\x00\x00\x00\x00\x00\x00}(\x8c\x01"
              "aK\x01\x8c\x01"
              "bK\x02u.");
    assert_shown(&run, "frame", "{t:a 1 t:b 2}");
    assert_int_equal(run.findings.count, 0);
    run_release(&run);
}

/* ---- reading the graph ---- */

static void assert_pairs(const struct run *run, ck_ref ref, const char *expected) {
    _cleanup_(ck_buffer_release) struct ck_buffer out;
    struct ck_pickle_walk walk;
    ck_ref key, value;

    ck_buffer_init(&out, 4096);
    assert_int_equal(run->status, 0);
    assert_true(ck_pickle_pairs(&run->pickle, ref, &walk));
    while (ck_pickle_next_pair(&walk, &key, &value)) {
        show(&run->pickle, key, 0, &out);
        ck_buffer_add_text(&out, "=");
        show(&run->pickle, value, 0, &out);
        ck_buffer_add_text(&out, ";");
    }
    assert_string_equal(ck_buffer_text(&out), expected);
}

static void ordered_dicts_of_all_writers_give_their_pairs(void **state) {
    struct run run;

    (void)state;
    RUN(&run, "ccollections\nOrderedDict\n)R(U\x01"
              "aK\x01U\x01"
              "bK\x02u.");
    assert_pairs(&run, run.pickle.root, "t:a=1;t:b=2;");
    run_release(&run);
    RUN(&run, "ccollections\nOrderedDict\n](](U\x01"
              "aK\x01"
              "e](U\x01"
              "bK\x02"
              "ee\x85R."); /* Python 2 */
    assert_pairs(&run, run.pickle.root, "t:a=1;t:b=2;");
    run_release(&run);
    RUN(&run, "ccollections\nOrderedDict\n](U\x01"
              "aK\x01\x86K\x05U\x01"
              "bK\x02\x86"
              "e\x85R(K\x03K\x04u."); /* a stray 5 */
    assert_pairs(&run, run.pickle.root, "t:a=1;t:b=2;3=4;");
    run_release(&run);
    RUN(&run, "ccollections\ndefaultdict\nNK\x01"
              "0\x85R(U\x01"
              "aK\x01u.");
    assert_pairs(&run, run.pickle.root, "t:a=1;");
    run_release(&run);
    RUN(&run, "ccollections\nCounter\n}U\x01"
              "aK\x01s\x85R.");
    assert_pairs(&run, run.pickle.root, "t:a=1;");
    run_release(&run);
    RUN(&run, "ccopy_reg\n_reconstructor\n(cm\nD\nc__builtin__\ndict\n}U\x01"
              "aK\x01stR.");
    assert_pairs(&run, run.pickle.root, "t:a=1;");
    run_release(&run);
    RUN(&run, "}K\x01K\x02s.");
    assert_pairs(&run, run.pickle.root, "1=2;");
    run_release(&run);
    RUN(&run, "]K\x01"
              "a.");
    struct ck_pickle_walk walk;
    ck_ref ref;
    assert_false(ck_pickle_pairs(&run.pickle, run.pickle.root, &walk));
    assert_false(ck_pickle_next_pair(&walk, &ref, &ref));
    run_release(&run);
}

static void sequences_of_all_writers_give_their_items(void **state) {
    static const char *const forms[] = {
        "](K\x01K\x02"
        "e.",
        "(K\x01K\x02t.",
        "\x8f(K\x01K\x02\x90.",
        "c__builtin__\nset\n](K\x01K\x02"
        "e\x85R.",
        "ctorch\nSize\nK\x01K\x02\x86\x85R.",
        "cm\nL\n)\x81(K\x01K\x02"
        "e.",
        "ccollections\ndeque\n](K\x01"
        "e\x85RK\x02"
        "a.",
        "ccopy_reg\n_reconstructor\n(cm\nD\nc__builtin__\nlist\n](K\x01K\x02"
        "etR.",
    };

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(forms); i++) {
        struct ck_pickle_walk walk;
        struct run run;
        ck_ref item = 0;

        run_bytes(&run, forms[i], strlen(forms[i]));
        assert_int_equal(run.status, 0);
        assert_true(ck_pickle_items(&run.pickle, run.pickle.root, &walk));
        for (int64_t k = 1; k <= 2; k++) {
            assert_true(ck_pickle_next_item(&walk, &item));
            assert_int_equal(ck_pickle_get(&run.pickle, item)->integer, k);
        }
        assert_false(ck_pickle_next_item(&walk, &item));
        run_release(&run);
    }
}

static void find_takes_the_last_pair_and_then_the_state(void **state) {
    struct run run;
    ck_ref value = 99;

    (void)state;
    RUN(&run, "ccollections\nOrderedDict\n)R(U\x01"
              "aK\x01U\x01"
              "aK\x02u}(U\x01"
              "aK\x03U\x01"
              "bK\x04ub.");
    assert_int_equal(run.status, 0);
    assert_true(ck_pickle_find(&run.pickle, run.pickle.root, "a", &value));
    assert_int_equal(ck_pickle_get(&run.pickle, value)->integer, 2);
    assert_true(ck_pickle_find(&run.pickle, run.pickle.root, "b", &value));
    assert_int_equal(ck_pickle_get(&run.pickle, value)->integer, 4);
    value = 99;
    assert_false(ck_pickle_find(&run.pickle, run.pickle.root, "c", &value));
    assert_int_equal(value, 99);
    run_release(&run);
    RUN(&run, "cm\nC\n)\x81}U\x01"
              "aK\x01s}U\x01"
              "bK\x02s\x86"
              "b."); /* (attributes, slots) */
    assert_true(ck_pickle_find(&run.pickle, run.pickle.root, "a", &value));
    assert_true(ck_pickle_find(&run.pickle, run.pickle.root, "b", &value));
    assert_int_equal(ck_pickle_get(&run.pickle, value)->integer, 2);
    run_release(&run);
}

static void arguments_are_taken_by_place(void **state) {
    struct run run;
    ck_ref value = 99;

    (void)state;
    RUN(&run, "cm\nf\nK\x01K\x02\x86R.");
    assert_true(ck_pickle_argument(&run.pickle, run.pickle.root, 1, &value));
    assert_int_equal(ck_pickle_get(&run.pickle, value)->integer, 2);
    value = 99;
    assert_false(ck_pickle_argument(&run.pickle, run.pickle.root, 2, &value));
    assert_int_equal(value, 99);
    run_release(&run);
    RUN(&run, "cm\nf\nNR."); /* arguments that are no tuple */
    assert_false(ck_pickle_argument(&run.pickle, run.pickle.root, 0, &value));
    run_release(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_of_the_68_opcodes_gives_its_value),
        cmocka_unit_test(the_table_of_cases_holds_each_of_the_68_opcodes),
        cmocka_unit_test(popping_from_an_empty_stack_is_refused),
        cmocka_unit_test(popping_below_the_mark_is_refused),
        cmocka_unit_test(a_missing_mark_is_refused),
        cmocka_unit_test(a_memo_slot_that_was_never_set_is_refused),
        cmocka_unit_test(adding_to_what_is_no_container_of_that_kind_is_refused),
        cmocka_unit_test(odd_keys_and_values_are_refused),
        cmocka_unit_test(malformed_lines_are_refused),
        cmocka_unit_test(cut_off_streams_are_truncated_at_every_byte),
        cmocka_unit_test(a_declared_length_beyond_the_input_is_refused_before_anything_is_allocated),
        cmocka_unit_test(a_list_and_a_dict_may_hold_themselves),
        cmocka_unit_test(billion_laughs_cost_what_their_opcodes_cost),
        cmocka_unit_test(a_flood_of_none_makes_no_values),
        cmocka_unit_test(a_huge_memo_index_costs_one_slot),
        cmocka_unit_test(memo_indices_survive_the_growth_of_the_memo),
        cmocka_unit_test(long_strings_stay_ranges_of_the_input),
        cmocka_unit_test(a_file_is_read_like_memory_across_windows),
        cmocka_unit_test(equal_globals_are_one_value),
        cmocka_unit_test(each_limit_holds_at_its_bound_and_refuses_one_past),
        cmocka_unit_test(the_memory_limit_has_a_bound_below_which_nothing_passes),
        cmocka_unit_test(values_cost_at_most_24_bytes_for_each_byte_of_the_pickle),
        cmocka_unit_test(decimals_hold_4300_digits_and_no_more),
        cmocka_unit_test(names_hold_4096_bytes_and_no_more),
        cmocka_unit_test(every_way_to_call_marks_the_callee),
        cmocka_unit_test(a_global_that_is_not_called_is_not_marked),
        cmocka_unit_test(a_class_that_is_rebuilt_or_persistent_is_called_too),
        cmocka_unit_test(findings_survive_a_broken_pickle),
        cmocka_unit_test(what_readers_read_differently_is_found),
        cmocka_unit_test(a_plain_pickle_has_no_structure_findings),
        cmocka_unit_test(ordered_dicts_of_all_writers_give_their_pairs),
        cmocka_unit_test(sequences_of_all_writers_give_their_items),
        cmocka_unit_test(find_takes_the_last_pair_and_then_the_state),
        cmocka_unit_test(arguments_are_taken_by_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
