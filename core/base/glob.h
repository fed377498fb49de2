/* base/glob.h: globs over names: `*` is any run of characters (dots included), `?` any one character, all else itself.
 *
 * Time is at most pattern length times text length: fnmatch(3) can be made exponential by a client. */
#ifndef CK_BASE_GLOB_H
#define CK_BASE_GLOB_H

#include <stdbool.h>

bool ck_glob_match(const char *pattern, const char *text);

/* True if the pattern holds `*` or `?`. */
bool ck_glob_is_glob(const char *pattern);

#endif
