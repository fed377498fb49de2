#include "core/container/sniff.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------- the table */

/* A row matches where its magic stands at its offset, or where its test says so. Rows are tried in order: strong ones
 * first. */
struct row {
    size_t offset;
    const char *magic;
    size_t n;
    bool (*test)(const uint8_t *head, size_t n);
    enum ck_form form;
    int code; /* for CK_FORM_OTHER */
    const char *message, *hint;
};

#define AT(offset_, text) .offset = (offset_), .magic = (text), .n = sizeof(text) - 1
#define REFUSE(code_, message_, hint_)                                                                                 \
    .form = CK_FORM_OTHER, .code = CK_E_##code_, .message = (message_), .hint = (hint_)

#define UNPACK_HINT "unpack it and send the checkpoint inside"

static bool is_html(const uint8_t *head, size_t n);
static bool is_legacy(const uint8_t *head, size_t n);
static bool is_pickle(const uint8_t *head, size_t n);
static bool is_safetensors(const uint8_t *head, size_t n);
static bool is_executorch(const uint8_t *head, size_t n);
static bool is_onnx(const uint8_t *head, size_t n);
static bool is_zeros(const uint8_t *head, size_t n);
static bool is_json(const uint8_t *head, size_t n);
static bool is_old_pickle(const uint8_t *head, size_t n);
static bool is_text(const uint8_t *head, size_t n);

static const struct row rows[] = {
    /* First, because it looks at most: the length of a header may begin with any magic of two bytes. */
    {.test = is_safetensors, .form = CK_FORM_SAFETENSORS},
    {AT(0, "PK\3\4"), .form = CK_FORM_ZIP},
    {AT(0, "PK\5\6"), REFUSE(NOT_A_CHECKPOINT, "the file is an empty zip archive",
                             "save the checkpoint again: the writer stopped early")},
    {AT(0, "PK\7\10"), REFUSE(UNSUPPORTED_FORM, "the file is one part of a zip archive that was split",
                              "join the parts, then send the whole file")},
    {AT(0, "version https://git-lfs"),
     REFUSE(NOT_A_CHECKPOINT, "this is a Git LFS pointer, not the model",
            "run `git lfs pull` in the repository and send the file again; its size should be megabytes")},
    {.test = is_html,
     REFUSE(
         NOT_A_CHECKPOINT, "this is a web page (HTML or XML), not the model",
         "the download saved an error or login page: open the address in a browser, or use the link of the raw file")},
    {.test = is_legacy, .form = CK_FORM_LEGACY},
    {.test = is_pickle, .form = CK_FORM_PICKLE},
    {AT(0, "GGUF"), REFUSE(UNSUPPORTED_FORM, "this is a GGUF file of llama.cpp",
                           "send the original checkpoint, safetensors or PyTorch")},
    {AT(0, "lmgg"), REFUSE(UNSUPPORTED_FORM, "this is a GGML file of an old llama.cpp",
                           "send the original checkpoint, safetensors or PyTorch")},
    {AT(0, "fmgg"), REFUSE(UNSUPPORTED_FORM, "this is a GGMF file of an old llama.cpp",
                           "send the original checkpoint, safetensors or PyTorch")},
    {AT(0, "tjgg"), REFUSE(UNSUPPORTED_FORM, "this is a GGJT file of an old llama.cpp",
                           "send the original checkpoint, safetensors or PyTorch")},
    {AT(0, "\x89HDF\r\n\x1A\n"), REFUSE(UNSUPPORTED_FORM, "this is an HDF5 file (Keras or TensorFlow weights)",
                                        "export the weights to safetensors or torch.save in Python first")},
    {AT(0, "7z\xBC\xAF\x27\x1C"), REFUSE(UNSUPPORTED_FORM, "this is a 7-Zip archive", UNPACK_HINT)},
    {AT(0, "Rar!\x1A\7"), REFUSE(UNSUPPORTED_FORM, "this is a RAR archive", UNPACK_HINT)},
    {AT(0, "\x1F\x8B"), .form = CK_FORM_GZIP},
    {AT(0, "BZh"), REFUSE(UNSUPPORTED_FORM, "this is a file compressed with bzip2",
                          "run `bunzip2` on it and send the checkpoint inside")},
    {AT(0, "\xFD"
           "7zXZ"),
     REFUSE(UNSUPPORTED_FORM, "this is a file compressed with xz", "run `unxz` on it and send the checkpoint inside")},
    {AT(0, "\x28\xB5\x2F\xFD"), REFUSE(UNSUPPORTED_FORM, "this is a file compressed with zstd",
                                       "run `unzstd` on it and send the checkpoint inside")},
    {AT(0, "PYTORCH1"),
     REFUSE(UNSUPPORTED_FORM, "this is a TorchScript file of the 2018 preview, which PyTorch itself no longer reads",
            "send the state_dict that was saved with torch.save")},
    {AT(0, "\x93NUMPY"), .form = CK_FORM_NPY},
    {AT(0, "\x47\x6B\x30\x01"),
     REFUSE(UNSUPPORTED_FORM, "this is an ncnn weight file", "send the PyTorch checkpoint that it was made from")},
    {AT(4, "PTMF"), REFUSE(UNSUPPORTED_FORM, "this is a TorchScript mobile flatbuffer (.ptl)",
                           "send the state_dict that was saved with torch.save")},
    {AT(4, "TFL3"),
     REFUSE(UNSUPPORTED_FORM, "this is a TensorFlow Lite model", "send the PyTorch checkpoint that it was made from")},
    {.test = is_executorch,
     REFUSE(UNSUPPORTED_FORM, "this is an ExecuTorch program (.pte)",
            "send the PyTorch checkpoint that it was made from")},
    {AT(8, "\3\0\0\0V 1"), REFUSE(UNSUPPORTED_FORM, "this is a Lua Torch 7 file (.t7), not PyTorch",
                                  "load it with the package torchfile in Python and torch.save the tensors")},
    {AT(0, "4\n1\n3\nV 1\n"), REFUSE(UNSUPPORTED_FORM, "this is a Lua Torch 7 file in text form (.t7), not PyTorch",
                                     "load it with the package torchfile in Python and torch.save the tensors")},
    {AT(257, "ustar"), .form = CK_FORM_TAR},
    {.test = is_zeros,
     REFUSE(NOT_A_CHECKPOINT, "the file begins with nothing but zero bytes",
            "the download or copy was probably interrupted; compare the digest with the original")},
    /* From here on the marks are weak: text and old pickles need a look at many bytes, the rest is two or three bytes.
     */
    {.test = is_onnx,
     REFUSE(UNSUPPORTED_FORM, "this is an ONNX model", "send the PyTorch checkpoint that it was made from")},
    {.test = is_old_pickle, .form = CK_FORM_PICKLE},
    {.test = is_json,
     REFUSE(NOT_A_CHECKPOINT, "this is JSON text, not the model",
            "send the file that holds the weights (model.safetensors, pytorch_model.bin), not its config or index")},
    {.test = is_text, REFUSE(NOT_A_CHECKPOINT, "this is a text file, not the model", NULL)},
    {AT(0, "\x78\x5E"), REFUSE(UNSUPPORTED_FORM, "this is compressed with zlib (joblib writes such files)",
                               "load it in Python and torch.save the tensors")},
    {AT(0, "\x78\x01"), REFUSE(UNSUPPORTED_FORM, "this is compressed with zlib (joblib writes such files)",
                               "load it in Python and torch.save the tensors")},
    {AT(0, "\x78\x9C"), REFUSE(UNSUPPORTED_FORM, "this is compressed with zlib (joblib writes such files)",
                               "load it in Python and torch.save the tensors")},
    {AT(0, "\x78\xDA"), REFUSE(UNSUPPORTED_FORM, "this is compressed with zlib (joblib writes such files)",
                               "load it in Python and torch.save the tensors")},
    {AT(0, "\x5D\0\0"), REFUSE(UNSUPPORTED_FORM, "this is a file compressed with lzma",
                               "run `unlzma` on it and send the checkpoint inside")},
    {AT(0, "\3\0\0\0\1\0\0\0"), REFUSE(UNSUPPORTED_FORM, "this looks like a Lua Torch 7 table (.t7), not PyTorch",
                                       "load it with the package torchfile in Python and torch.save the tensors")},
};

/* ------------------------------------------------------------------------------------------- the tests */

static bool has(const uint8_t *head, size_t n, size_t offset, const char *magic, size_t length) {
    return n >= length && offset <= n - length && memcmp(head + offset, magic, length) == 0;
}

/* Index of the first byte that is neither white space nor part of a UTF-8 byte order mark. */
static size_t skip_blank(const uint8_t *head, size_t n) {
    size_t i = has(head, n, 0, "\xEF\xBB\xBF", 3) ? 3 : 0;

    while (i < n && (head[i] == ' ' || head[i] == '\t' || head[i] == '\r' || head[i] == '\n'))
        i++;
    return i;
}

static bool is_letter(uint8_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

/* "<!DOCTYPE", "<html", "<?xml", "<Error>" of object stores ... */
static bool is_html(const uint8_t *head, size_t n) {
    size_t i = skip_blank(head, n);

    return i + 1 < n && head[i] == '<' && (head[i + 1] == '!' || head[i + 1] == '?' || is_letter(head[i + 1]));
}

/* torch's magic number 0x1950a86a20f9469cfc6c as a whole first pickle: LONG1 at protocols 2 to 5 (with a FRAME from 4
 * on), text before. */
static bool is_legacy(const uint8_t *head, size_t n) {
    static const char binary[] = "\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19.",
                      text[] = "L119547037146038801333356L\n.";
    size_t at = 2;

    if (has(head, n, 0, text, sizeof(text) - 1) || has(head, n, 0, binary, sizeof(binary) - 1))
        return true;
    if (n < 3 || head[0] != 0x80 || head[1] < 2 || head[1] > 5)
        return false;
    if (head[2] == 0x95)
        at += 9;
    return has(head, n, at, binary, sizeof(binary) - 1);
}

static bool is_pickle(const uint8_t *head, size_t n) {
    return n >= 2 && head[0] == 0x80 && head[1] <= 5;
}

/* The header length's upper bytes are zero and the JSON begins at once; whether the length is true is for the reader to
 * say. */
static bool is_safetensors(const uint8_t *head, size_t n) {
    return n >= 9 && head[8] == '{' && head[5] == 0 && head[6] == 0 && head[7] == 0;
}

static bool is_executorch(const uint8_t *head, size_t n) {
    return has(head, n, 4, "ET", 2) && n >= 8 && is_digit(head[6]) && is_digit(head[7]);
}

/* Field 1 (ir_version) as a small number, then field 2 (producer name) as a short printable text. */
static bool is_onnx(const uint8_t *head, size_t n) {
    if (n < 4 || head[0] != 0x08 || head[1] == 0 || head[1] > 0x1F || head[2] != 0x12 || head[3] == 0 || head[3] > 64 ||
        n - 4 < head[3])
        return false;
    for (size_t i = 0; i < head[3]; i++)
        if (head[4 + i] < 0x20 || head[4 + i] > 0x7E)
            return false;
    return true;
}

static bool is_zeros(const uint8_t *head, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (head[i] != 0)
            return false;
    return n >= 16;
}

/* ASCII or UTF-8 without controls. A sequence that the end of the head cuts counts as whole. */
static bool is_text(const uint8_t *head, size_t n) {
    size_t i = 0;

    while (i < n) {
        size_t more = head[i] < 0x80   ? 0
                      : head[i] < 0xC2 ? 9
                      : head[i] < 0xE0 ? 1
                      : head[i] < 0xF0 ? 2
                      : head[i] < 0xF5 ? 3
                                       : 9;

        if (more == 9 || head[i] == 0x7F || (head[i] < 0x20 && !(head[i] >= 8 && head[i] <= 13) && head[i] != 0x1B))
            return false;
        for (i++; more > 0 && i < n; more--, i++)
            if ((head[i] & 0xC0) != 0x80)
                return false;
    }
    return true;
}

static bool is_json(const uint8_t *head, size_t n) {
    size_t i = skip_blank(head, n);

    return i + 1 < n && (head[i] == '{' || head[i] == '[') && is_text(head, n);
}

/* ----------------------------------------------------------------- pickles of protocols 0 and 1 (weak) */

static bool is_one_of(uint8_t op, const char *ops) {
    return op != 0 && strchr(ops, op);
}

enum line_kind { LINE_NUMBER, LINE_NAME, LINE_QUOTED, LINE_ANY };

/* The end of a text argument (behind its newline); 0 if it is not of the kind; n + 1 if the head ends inside it. */
static size_t line_end(const uint8_t *head, size_t n, size_t at, enum line_kind kind) {
    size_t start = at;

    for (; at < n && head[at] != '\n'; at++) {
        uint8_t c = head[at];
        bool ok = kind == LINE_NUMBER ? is_digit(c) || strchr("+-.eELnaif", c)
                  : kind == LINE_NAME ? is_letter(c) || is_digit(c) || c == '_' || c == '.'
                                      : kind == LINE_ANY || c >= 0x20 || c == '\t' || c == '\r';

        if (c == 0 || !ok)
            return 0;
    }
    if (at == n)
        return n + 1;
    if (at == start && kind != LINE_ANY)
        return 0;
    if (kind == LINE_QUOTED &&
        (at - start < 2 || (head[start] != '\'' && head[start] != '"') || head[at - 1] != head[start]))
        return 0;
    return at + 1;
}

/* The end of one opcode of protocol 0 or 1 at `at`, with the results of line_end(). Source: pickletools.py. */
static size_t opcode_end(const uint8_t *head, size_t n, size_t at) {
    uint8_t op = head[at++];
    size_t end;

    if (is_one_of(op, "(.012NR]}abdelostuQ)"))
        return at;
    if (is_one_of(op, "FILpg"))
        return line_end(head, n, at, LINE_NUMBER);
    if (op == 'S')
        return line_end(head, n, at, LINE_QUOTED);
    if (op == 'V' || op == 'P')
        return line_end(head, n, at, LINE_ANY);
    if (op == 'c' || op == 'i') {
        end = line_end(head, n, at, LINE_NAME);
        return end == 0 || end > n ? end : line_end(head, n, end, LINE_NAME);
    }
    if (op == 'K' || op == 'h' || op == 'q')
        return at + 1;
    if (op == 'M')
        return at + 2;
    if (op == 'J' || op == 'j' || op == 'r')
        return at + 4;
    if (op == 'G')
        return at + 8;
    if (op == 'U')
        return at < n ? at + 1 + head[at] : n + 1;
    if (op == 'X' || op == 'T')
        return n - at < 4 ? n + 1
                          : at + 4 +
                                ((size_t)head[at] | (size_t)head[at + 1] << 8 | (size_t)head[at + 2] << 16 |
                                 (size_t)head[at + 3] << 24);
    return 0;
}

/* What a text lacks: values for the opcodes that take some. height counts pushes only, so it is no less than true. */
struct stack {
    size_t height, marks;
};

static bool stack_apply(struct stack *stack, uint8_t op) {
    size_t need = is_one_of(op, "s") ? 3 : is_one_of(op, "Rab") ? 2 : is_one_of(op, "02pqrQ.") ? 1 : 0;

    if (stack->height < need)
        return false;
    if (op == '(')
        stack->marks++;
    else if (!is_one_of(op, "0pqrQ.Rabs1eu"))
        stack->height++;
    if (!is_one_of(op, "1eudltoi"))
        return true;
    return stack->marks > 0 && stack->marks-- > 0;
}

/* These have no magic: the head must read as opcodes with their values to its end or a STOP, three at least. */
static bool is_old_pickle(const uint8_t *head, size_t n) {
    struct stack stack = {0};
    size_t at = 0, opcodes = 0;

    while (at < n) {
        uint8_t op = head[at];
        size_t end = opcode_end(head, n, at);

        if (end == 0 || !stack_apply(&stack, op))
            return false;
        opcodes++;
        if (op == '.' || end > n)
            break;
        at = end;
    }
    return opcodes >= 3;
}

/* --------------------------------------------------------------------------------------------- answers */

static bool row_matches(const struct row *row, const uint8_t *head, size_t n) {
    return row->test ? row->test(head, n) : has(head, n, row->offset, row->magic, row->n);
}

/* The first bytes for a person: as text where they are printable, else in hexadecimal. */
static void excerpt(const uint8_t *head, size_t n, char *text, size_t size) {
    size_t shown = CK_MIN(n, (size_t)16), used = 0;

    for (size_t i = 0; i < shown; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%02x", i ? " " : "", head[i]);
    used += (size_t)snprintf(text + used, size - used, " \"");
    for (size_t i = 0; i < shown; i++)
        text[used++] = head[i] >= 0x20 && head[i] <= 0x7E && head[i] != '"' ? (char)head[i] : '.';
    snprintf(text + used, size - used, "\"%s", n > shown ? " ..." : "");
}

static enum ck_form refuse(const struct row *row, const uint8_t *head, size_t n, struct ck_error *err) {
    char text[96];

    if (row->code == CK_E_NOT_A_CHECKPOINT) {
        excerpt(head, n, text, sizeof(text));
        ck_error_set(err, row->code, NULL, "%s; it begins %s", row->message, text);
    } else {
        ck_error_set(err, row->code, NULL, "%s", row->message);
    }
    if (row->hint)
        ck_error_set_hint(err, "%s", row->hint);
    return CK_FORM_OTHER;
}

enum ck_form ck_sniff(const void *bytes, size_t n, uint64_t length, struct ck_error *err) {
    static const struct row unknown = {REFUSE(NOT_A_CHECKPOINT, "the file is of no known kind", NULL)};
    const uint8_t *head = bytes;

    n = CK_MIN(n, (size_t)CK_SNIFF_BYTES);
    if (length > 0)
        n = (size_t)CK_MIN((uint64_t)n, length);
    if (n == 0) {
        ck_error_set(err, CK_E_EMPTY_FILE, NULL, "the file is empty");
        return CK_FORM_OTHER;
    }
    for (size_t i = 0; i < CK_ARRAY_LEN(rows); i++) {
        if (!row_matches(&rows[i], head, n))
            continue;
        return rows[i].form == CK_FORM_OTHER ? refuse(&rows[i], head, n, err) : rows[i].form;
    }
    return refuse(&unknown, head, n, err);
}

const char *ck_form_name(enum ck_form form) {
    static const char *const names[] = {
        [CK_FORM_ZIP] = "torch-zip", [CK_FORM_SAFETENSORS] = "safetensors",
        [CK_FORM_PICKLE] = "pickle", [CK_FORM_LEGACY] = "torch-legacy",
        [CK_FORM_TAR] = "tar",       [CK_FORM_NPY] = "npy",
        [CK_FORM_GZIP] = "gzip",     [CK_FORM_OTHER] = "other",
    };

    return (unsigned)form < CK_ARRAY_LEN(names) ? names[form] : "other";
}
