#include "core/base/glob.h"

#include <string.h>

bool ck_glob_match(const char *pattern, const char *text) {
    const char *star = NULL, *resume = NULL;

    /* Only the last star need be reconsidered: what an earlier one could give, it can take as well. */
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = text;
        } else if (*pattern && (*pattern == '?' || *pattern == *text)) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

bool ck_glob_is_glob(const char *pattern) {
    return strpbrk(pattern, "*?") != NULL;
}
