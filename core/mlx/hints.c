#include "core/mlx/hints.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "core/base/macros.h"

static bool is_number(const char *start, const char *end) {
    for (const char *p = start; p < end; p++)
        if (!isdigit((unsigned char)*p))
            return false;
    return end > start;
}

/* Start and end of the last component that is not a number; of the last one if all are. */
static void own_component(const char *path, const char **ret_start, const char **ret_end) {
    const char *end = path + strlen(path), *last_end = end, *last_start = NULL;

    for (;;) {
        const char *start = end;

        while (start > path && start[-1] != '.')
            start--;
        if (!last_start)
            last_start = start;
        if (!is_number(start, end)) {
            *ret_start = start;
            *ret_end = end;
            return;
        }
        if (start == path)
            break;
        end = start - 1;
    }
    *ret_start = last_start;
    *ret_end = last_end;
}

static bool contains(const char *start, const char *end, const char *word) {
    size_t n = strlen(word);

    for (const char *p = start; p + n <= end; p++)
        if (strncasecmp(p, word, n) == 0)
            return true;
    return false;
}

/* Calls for each token: letters between other characters, and from a capital to the next: "upConv2" -> up, Conv. */
static bool any_token(const char *start, const char *end, bool (*fits)(const char *token, size_t n)) {
    const char *p = start;

    while (p < end) {
        const char *token = p;

        if (!isalpha((unsigned char)*p)) {
            p++;
            continue;
        }
        p++;
        while (p < end && isalpha((unsigned char)*p) && !(isupper((unsigned char)*p) && islower((unsigned char)p[-1])))
            p++;
        if (fits(token, (size_t)(p - token)))
            return true;
    }
    return false;
}

static bool token_is(const char *token, size_t n, const char *const *words) {
    for (; *words; words++)
        if (strlen(*words) == n && strncasecmp(token, *words, n) == 0)
            return true;
    return false;
}

static bool token_transposed(const char *token, size_t n) {
    static const char *const words[] = {"dec",  "decs", "trans",   "gen",   "generator",
                                        "netg", "inv",  "inverse", "tconv", NULL};
    static const char *const beginnings[] = {"up", "deconv", "decod", "unpool", "recon", "transpos"};

    if (token_is(token, n, words))
        return true;
    for (size_t i = 0; i < CK_ARRAY_LEN(beginnings); i++)
        if (n >= strlen(beginnings[i]) && strncasecmp(token, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

static bool part_is_transposed(const char *start, const char *end) {
    static const char *const anywhere[] = {"deconv", "transpos", "convtr", "upconv", "convt_", "conv_t_", "tconv"};

    for (size_t i = 0; i < CK_ARRAY_LEN(anywhere); i++)
        if (contains(start, end, anywhere[i]))
            return true;
    return (end - start >= 5 && strncasecmp(end - 5, "convt", 5) == 0) ||
           (end - start >= 6 && strncasecmp(end - 6, "conv_t", 6) == 0);
}

static bool part_hints_transposed(const char *start, const char *end) {
    return part_is_transposed(start, end) || contains(start, end, "upsamp") || any_token(start, end, token_transposed);
}

bool ck_hint_transposed_strong(const char *path) {
    const char *start, *end;

    own_component(path, &start, &end);
    return part_is_transposed(start, end);
}

bool ck_hint_transposed_own(const char *path) {
    const char *start, *end;

    own_component(path, &start, &end);
    return part_hints_transposed(start, end);
}

bool ck_hint_transposed_above(const char *path) {
    const char *start, *end;

    own_component(path, &start, &end);
    return start > path && part_hints_transposed(path, start - 1);
}

bool ck_hint_conv(const char *path) {
    static const char *const anywhere[] = {
        "conv", "downsample", "patch_embed", "patch_embedding", "stem", "shortcut", "pointwise", "depthwise", "cnn"};
    const char *start, *end;

    own_component(path, &start, &end);
    for (size_t i = 0; i < CK_ARRAY_LEN(anywhere); i++)
        if (contains(start, end, anywhere[i]))
            return true;
    return false;
}

static bool token_norm(const char *token, size_t n) {
    static const char *const words[] = {"norm",      "bn",        "ln",           "gn",      "rms", "layernorm",
                                        "batchnorm", "groupnorm", "instancenorm", "rmsnorm", NULL};

    return token_is(token, n, words);
}

bool ck_hint_norm(const char *path) {
    const char *start, *end;

    own_component(path, &start, &end);
    return contains(start, end, "norm") || any_token(start, end, token_norm);
}

static bool token_not_norm(const char *token, size_t n) {
    return !token_norm(token, n) && n > 1 && !(n == 5 && strncasecmp(token, "layer", 5) == 0) &&
           !(n == 5 && strncasecmp(token, "batch", 5) == 0) && !(n == 5 && strncasecmp(token, "group", 5) == 0);
}

bool ck_hint_norm_alone(const char *path) {
    const char *dot = strrchr(path, '.'), *start = dot ? dot + 1 : path, *end = path + strlen(path);

    return any_token(start, end, token_norm) && !any_token(start, end, token_not_norm);
}

bool ck_hint_bilinear(const char *path) {
    const char *start, *end;

    own_component(path, &start, &end);
    return contains(start, end, "bilinear");
}

static bool token_embedding(const char *token, size_t n) {
    static const char *const words[] = {"wte", "wpe", "emb", "embs", "wordembs", "lookup", NULL};

    return token_is(token, n, words);
}

bool ck_hint_embedding(const char *path) {
    const char *start, *end;

    own_component(path, &start, &end);
    return contains(start, end, "embed") || any_token(start, end, token_embedding);
}

bool ck_hint_conv1d_hf(const char *path) {
    static const char *const names[] = {"c_attn", "c_proj", "c_fc", "q_attn"};
    const char *start, *end;

    own_component(path, &start, &end);
    for (size_t i = 0; i < CK_ARRAY_LEN(names); i++)
        if (strlen(names[i]) == (size_t)(end - start) && strncmp(start, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

void ck_hint_generalise(const char *path, char *text, size_t size) {
    size_t n = 0;

    while (*path && n + 1 < size) {
        if (isdigit((unsigned char)*path)) {
            while (isdigit((unsigned char)*path))
                path++;
            text[n++] = 'N';
        } else {
            text[n++] = *path++;
        }
    }
    text[n] = 0;
}

const char *ck_hint_tail(const char *path) {
    const char *start, *end, *before;

    own_component(path, &start, &end);
    if (start == path)
        return path;
    before = start - 1;
    for (;;) {
        const char *component = before;

        while (component > path && component[-1] != '.')
            component--;
        if (!is_number(component, before) || component == path)
            return component;
        before = component - 1;
    }
}
