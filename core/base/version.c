#include "core/base/version.h"

#define RELEASE "0.1.0"

#ifndef CK_COMMIT /* the Makefile gives it to this file alone, so that a commit rebuilds one object */
#define CK_COMMIT ""
#endif

const char *ck_version(void) {
    return sizeof(CK_COMMIT) > 1 ? RELEASE "+" CK_COMMIT : RELEASE;
}
