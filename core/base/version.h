/* base/version.h: release and commit. Together they are the converter version, which is part of the key of every result. */
#ifndef CK_BASE_VERSION_H
#define CK_BASE_VERSION_H

/* "0.1.0+1a2b3c4d5e6f", or "0.1.0" when built outside a git checkout. Static storage. */
const char *ck_version(void);

/* The MLX whose arithmetic and layouts results follow, bit for bit. */
#define CK_MLX_VERSION "0.32.4"

#endif
