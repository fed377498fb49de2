/* base/arena.h: a bump allocator with a byte limit.
 *
 * One arena belongs to one owner (a model, a plan, a pickle graph) and is released whole. Chunks double from 64 KiB to 1 MiB.
 * Under AddressSanitizer the unused rest of each chunk is poisoned, so an overrun is seen there as it would be with malloc. */
#ifndef CK_BASE_ARENA_H
#define CK_BASE_ARENA_H

#include "core/base/macros.h"

struct ck_arena_chunk;

struct ck_arena {
    struct ck_arena_chunk *chunks; /* newest first */
    size_t                 used;   /* bytes handed out, padding included */
    size_t                 limit;  /* most that `used` may become */
};

/* A zeroed arena with limit 0 hands out nothing. limit in bytes; SIZE_MAX for "what malloc gives". */
void ck_arena_init(struct ck_arena *arena, size_t limit);

/* size bytes, zeroed, aligned for any type; NULL when the limit or memory is exhausted. size 0 gives a valid pointer. */
void *ck_arena_alloc(struct ck_arena *arena, size_t size);

/* count elements of size bytes, with overflow check. */
void *ck_arena_alloc_array(struct ck_arena *arena, size_t count, size_t size);

/* A copy of n bytes followed by a NUL. NULL as above. */
char *ck_arena_copy(struct ck_arena *arena, const void *bytes, size_t n);
char *ck_arena_strdup(struct ck_arena *arena, const char *text);

/* printf into the arena. NULL as above. */
char *ck_arena_printf(struct ck_arena *arena, const char *format, ...) _printf_(2, 3);

/* Frees everything; the arena can be used again with the same limit. Accepts a zeroed arena. */
void ck_arena_release(struct ck_arena *arena);

#endif
