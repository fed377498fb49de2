#include "core/model/torchscript_code.h"

#include <errno.h>
#include <string.h>

#include "core/model/memory.h"

/* One number, word or text is at most this long; tuples may be longer. */
#define TOKEN_MAX 64

/* A part of a line. */
struct span {
    const char *at, *end;
};

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the classes of the TorchScript code");
}

/* ---- reading a line ---- */

static bool take(struct span *line, const char *text) {
    size_t n = strlen(text);

    if ((size_t)(line->end - line->at) < n || memcmp(line->at, text, n) != 0)
        return false;
    line->at += n;
    return true;
}

static bool is_name_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* An identifier; false if there is none. */
static bool take_name(struct span *line, struct span *ret_name) {
    const char *start = line->at;

    while (line->at < line->end && is_name_byte(*line->at))
        line->at++;
    *ret_name = (struct span){start, line->at};
    return line->at > start;
}

static unsigned octal(struct span *line) {
    unsigned value = 0;

    for (int i = 0; i < 3 && line->at < line->end && *line->at >= '0' && *line->at <= '7'; i++)
        value = value * 8 + (unsigned)(*line->at++ - '0');
    return value;
}

/* The byte behind a backslash. */
static char escaped(struct span *line) {
    static const char from[] = "abfnrtv", to[] = "\a\b\f\n\r\t\v";
    const char *known;
    char c = *line->at;

    if (c >= '0' && c <= '7')
        return (char)octal(line);
    line->at++;
    known = c ? strchr(from, c) : NULL;
    return known ? to[known - from] : c;
}

/* The closing quote of the text that the line begins with, or NULL. */
static const char *closing_quote(const struct span *line) {
    for (const char *p = line->at + 1; p < line->end; p++) {
        if (*p == '"')
            return p;
        p += *p == '\\';
    }
    return NULL;
}

/* A text in double quotes, into the arena. False if there is none, or with *ret_spent no memory. */
static bool take_text(struct span *line, struct ck_arena *arena, const char **ret_text, bool *ret_spent) {
    struct span text;
    size_t n = 0;
    char *copy;

    if (line->at == line->end || *line->at != '"')
        return false;
    text = (struct span){line->at + 1, closing_quote(line)};
    if (!text.end)
        return false;
    copy = ck_arena_alloc(arena, (size_t)(text.end - text.at) + 1);
    *ret_spent = !copy;
    while (copy && text.at < text.end) {
        char c = *text.at++;

        if (c == '\\')
            c = escaped(&text);
        if (c == 0)
            return false;
        copy[n++] = c;
    }
    line->at = text.end + 1;
    *ret_text = copy;
    return copy != NULL;
}

/* ---- values ---- */

static bool take_int(struct span *line, int64_t *ret_value) {
    char text[TOKEN_MAX], *end;
    size_t n = 0;

    while (line->at + n < line->end && n < sizeof(text) - 1 &&
           ((line->at[n] >= '0' && line->at[n] <= '9') || (n == 0 && line->at[n] == '-')))
        n++;
    memcpy(text, line->at, n);
    text[n] = 0;
    errno = 0;
    *ret_value = strtoll(text, &end, 10);
    if (n == 0 || *end || end == text || errno != 0)
        return false;
    line->at += n;
    return true;
}

/* The rest of the line: an integer, or else a floating-point number. */
static bool take_number(struct span *line, struct ck_attribute *attribute) {
    struct span again = *line;
    char text[TOKEN_MAX], *end;
    size_t n = (size_t)(line->end - line->at);

    if (take_int(&again, &attribute->integer) && again.at == line->end) {
        attribute->kind = CK_ATTRIBUTE_INT;
        return true;
    }
    if (n == 0 || n >= sizeof(text) || !strchr("-.0123456789", *line->at))
        return false;
    memcpy(text, line->at, n);
    text[n] = 0;
    attribute->kind = CK_ATTRIBUTE_FLOAT;
    attribute->real = strtod(text, &end);
    return end == text + n && !strpbrk(text, "xXnN");
}

/* "(2, 2)", "(3,)", "[0, 1]": integers only, at least one. */
static bool take_ints(struct span *line, struct ck_arena *arena, struct ck_attribute *attribute, bool *ret_spent) {
    char close = *line->at == '(' ? ')' : ']';
    int64_t *items;
    uint32_t n = 0;

    line->at++;
    items = ck_arena_alloc_array(arena, (size_t)(line->end - line->at) / 2 + 1, sizeof(*items));
    *ret_spent = !items;
    if (!items)
        return false;
    while (line->at < line->end && *line->at != close) {
        if (!take_int(line, &items[n++]))
            return false;
        if (take(line, ","))
            take(line, " ");
        else if (line->at == line->end || *line->at != close)
            return false;
    }
    attribute->kind = CK_ATTRIBUTE_INTS;
    attribute->ints.items = items;
    attribute->ints.count = n;
    return n > 0 && line->at + 1 == line->end;
}

static bool is_word(const struct span *line, const char *word) {
    return (size_t)(line->end - line->at) == strlen(word) && memcmp(line->at, word, strlen(word)) == 0;
}

/* False for what is of no plain kind. */
static bool read_value(struct span *line, struct ck_arena *arena, struct ck_attribute *attribute, bool *ret_spent) {
    if (line->at == line->end)
        return false;
    if (is_word(line, "None")) {
        attribute->kind = CK_ATTRIBUTE_NONE;
        return true;
    }
    if (is_word(line, "True") || is_word(line, "False")) {
        attribute->kind = CK_ATTRIBUTE_BOOL;
        attribute->boolean = *line->at == 'T';
        return true;
    }
    if (*line->at == '"') {
        attribute->kind = CK_ATTRIBUTE_TEXT;
        return take_text(line, arena, &attribute->text, ret_spent) && line->at == line->end;
    }
    if (*line->at == '(' || *line->at == '[')
        return take_ints(line, arena, attribute, ret_spent);
    return take_number(line, attribute);
}

/* ---- lines of a class ---- */

/* Behind "NAME : Final[TYPE] = ": the brackets of the type are counted. */
static bool skip_type(struct span *line) {
    unsigned depth = 1;

    for (; line->at < line->end && depth > 0; line->at++)
        depth += (*line->at == '[') - (unsigned)(*line->at == ']');
    return depth == 0 && take(line, " = ");
}

static int add_final(struct ck_script_code *code, struct ck_script_class *class_, struct span line,
                     struct ck_error *err) {
    struct ck_attribute attribute = {0};
    struct span name;
    bool spent = false;

    if (!take_name(&line, &name) || !take(&line, " : Final[") || !skip_type(&line))
        return 0;
    if (!read_value(&line, code->arena, &attribute, &spent))
        return spent ? no_memory(err) : 0;
    attribute.name = ck_arena_copy(code->arena, name.at, (size_t)(name.end - name.at));
    if (!attribute.name ||
        !ck_grow((void **)&class_->finals, class_->n_finals, &class_->finals_capacity, sizeof(attribute)))
        return no_memory(err);
    class_->finals[class_->n_finals++] = attribute;
    return 0;
}

/* ["weight", "bias", ] */
static int read_names(struct ck_script_code *code, struct span line, struct ck_script_class *class_,
                      enum ck_script_role role, struct ck_error *err) {
    const char *name;
    bool spent = false;

    while (take_text(&line, code->arena, &name, &spent)) {
        if (!ck_strmap_set(&class_->roles, name, role))
            return no_memory(err);
        if (take(&line, ","))
            take(&line, " ");
    }
    return spent ? no_memory(err) : 0;
}

static int add_member(struct ck_script_code *code, struct ck_script_class *class_, struct span line,
                      struct ck_error *err) {
    if (take(&line, "__parameters__ = ["))
        return read_names(code, line, class_, CK_SCRIPT_PARAMETER, err);
    if (take(&line, "__buffers__ = [")) {
        class_->has_buffers = true;
        return read_names(code, line, class_, CK_SCRIPT_BUFFER, err);
    }
    return add_final(code, class_, line, err);
}

/* ---- calls in the methods of traced modules ---- */

/* A traced module has no Final: what its convolution was made with stands only in the call of its forward(). */
static const struct {
    const char *call;
    const char *arguments[9]; /* NULL: a tensor */
} convolutions[] = {
    {"torch._convolution(",
     {NULL, NULL, NULL, "stride", "padding", "dilation", "transposed", "output_padding", "groups"}},
    {"torch._convolution_mode(", {NULL, NULL, NULL, "stride", "padding", "dilation", "groups", NULL, NULL}},
};

/* The next argument, without the comma behind it. False at the end of the call, or of the line. */
static bool take_argument(struct span *line, struct span *ret_argument) {
    unsigned depth = 0;
    const char *p = line->at;

    for (; p < line->end && (depth > 0 || (*p != ',' && *p != ')')); p++) {
        depth += *p == '(' || *p == '[';
        depth -= depth > 0 && (*p == ')' || *p == ']');
    }
    if (p == line->end || p == line->at)
        return false;
    *ret_argument = (struct span){line->at, p};
    line->at = p + 1;
    if (*p == ',')
        take(line, " ");
    else
        line->at = line->end;
    return true;
}

static bool equals(const struct ck_attribute *a, const struct ck_attribute *b) {
    return a->kind == b->kind && (a->kind == CK_ATTRIBUTE_INT    ? a->integer == b->integer
                                  : a->kind == CK_ATTRIBUTE_BOOL ? a->boolean == b->boolean
                                                                 : true);
}

/* Two calls that differ leave nothing known. */
static int add_from_call(struct ck_script_class *class_, const struct ck_attribute *attribute, struct ck_error *err) {
    for (uint32_t i = 0; i < class_->n_finals; i++) {
        struct ck_attribute *known = &class_->finals[i];

        if (strcmp(known->name, attribute->name) != 0)
            continue;
        if (!equals(known, attribute))
            known->kind = CK_ATTRIBUTE_NONE;
        return 0;
    }
    if (!ck_grow((void **)&class_->finals, class_->n_finals, &class_->finals_capacity, sizeof(*attribute)))
        return no_memory(err);
    class_->finals[class_->n_finals++] = *attribute;
    return 0;
}

/* line: behind the opening bracket. Only the module's own `weight` makes it the module's convolution. */
static int read_call(struct ck_script_code *code, struct ck_script_class *class_, struct span line,
                     const char *const *names, size_t n, struct ck_error *err) {
    struct span argument;
    bool spent = false;
    int r = 0;

    for (size_t i = 0; r == 0 && i < n && take_argument(&line, &argument); i++) {
        struct ck_attribute attribute = {.name = names[i]};

        if (i == 1 && !is_word(&argument, "weight"))
            return 0;
        if (names[i] && read_value(&argument, code->arena, &attribute, &spent))
            r = add_from_call(class_, &attribute, err);
        if (spent)
            return no_memory(err);
    }
    return r;
}

static int read_calls(struct ck_script_code *code, struct ck_script_class *class_, struct span line,
                      struct ck_error *err) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < CK_ARRAY_LEN(convolutions); i++) {
        size_t n = strlen(convolutions[i].call);
        const char *call = memmem(line.at, (size_t)(line.end - line.at), convolutions[i].call, n);

        if (call)
            r = read_call(code, class_, (struct span){call + n, line.end}, convolutions[i].arguments,
                          CK_ARRAY_LEN(convolutions[i].arguments), err);
    }
    return r;
}

/* ---- the file ---- */

/* "class NAME(Module):". *ret_open: its members follow. */
static int begin_class(struct ck_script_code *code, const char *qualifier, struct span line, bool *ret_open,
                       struct ck_error *err) {
    struct ck_script_class class_ = {0};
    struct span name;

    *ret_open = false;
    if (!take(&line, "class ") || !take_name(&line, &name))
        return 0;
    class_.is_module = take(&line, "(Module)");
    class_.name = ck_arena_printf(code->arena, "%s.%.*s", qualifier, (int)(name.end - name.at), name.at);
    if (!class_.name || !ck_grow((void **)&code->classes, code->n_classes, &code->classes_capacity, sizeof(class_)) ||
        !ck_strmap_set(&code->by_name, class_.name, code->n_classes))
        return no_memory(err);
    code->classes[code->n_classes++] = class_;
    *ret_open = true;
    return 0;
}

void ck_script_code_init(struct ck_script_code *code, struct ck_arena *arena) {
    *code = (struct ck_script_code){.arena = arena};
}

/* One line. *in_class: it may be of the last class; *open: its members are still being listed. */
static int read_line(struct ck_script_code *code, const char *qualifier, struct span line, bool *in_class, bool *open,
                     struct ck_error *err) {
    struct ck_script_class *class_ = *in_class ? &code->classes[code->n_classes - 1] : NULL;

    if (*line.at != ' ') {
        int r = begin_class(code, qualifier, line, open, err);

        *in_class = *open;
        return r;
    }
    *open = *open && take(&line, "  ") && line.at < line.end && !take(&line, "def ");
    if (*open)
        return add_member(code, class_, line, err);
    return class_ ? read_calls(code, class_, line, err) : 0;
}

int ck_script_code_add(struct ck_script_code *code, const char *qualifier, const char *text, size_t n,
                       struct ck_error *err) {
    const char *end = text + n;
    bool in_class = false, open = false;
    int r = 0;

    while (r == 0 && text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        struct span line = {text, newline ? newline : end};

        text = newline ? newline + 1 : end;
        if (line.end > line.at && line.end[-1] == '\r')
            line.end--;
        if (line.at < line.end)
            r = read_line(code, qualifier, line, &in_class, &open, err);
    }
    return r;
}

const struct ck_script_class *ck_script_code_find(const struct ck_script_code *code, const char *name) {
    uint32_t index;

    return ck_strmap_get(&code->by_name, name, &index) ? &code->classes[index] : NULL;
}

enum ck_script_role ck_script_role(const struct ck_script_class *class_, const char *attribute) {
    uint32_t role;

    if (ck_strmap_get(&class_->roles, attribute, &role))
        return (enum ck_script_role)role;
    return class_->has_buffers || !class_->is_module ? CK_SCRIPT_PLAIN : CK_SCRIPT_BUFFER;
}

void ck_script_code_release(struct ck_script_code *code) {
    for (uint32_t i = 0; i < code->n_classes; i++) {
        free(code->classes[i].finals);
        ck_strmap_release(&code->classes[i].roles);
    }
    free(code->classes);
    ck_strmap_release(&code->by_name);
    *code = (struct ck_script_code){0};
}
