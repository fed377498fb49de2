#include "core/base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define CK_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CK_ASAN 1
#endif
#endif
#ifdef CK_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#define ALIGNMENT   16u
#define CHUNK_FIRST ((size_t)64 << 10)
#define CHUNK_MOST  ((size_t)1 << 20)

struct ck_arena_chunk {
    struct ck_arena_chunk *next;
    size_t size, used; /* of bytes[] */
    _Alignas(16) unsigned char bytes[];
};

void ck_arena_init(struct ck_arena *arena, size_t limit) {
    *arena = (struct ck_arena){.limit = limit};
}

static struct ck_arena_chunk *chunk_new(struct ck_arena *arena, size_t need) {
    size_t size = arena->chunks ? CK_MIN(arena->chunks->size * 2, CHUNK_MOST) : CHUNK_FIRST;
    struct ck_arena_chunk *chunk;

    size = CK_MAX(size, need);
    chunk = malloc(sizeof(*chunk) + size);
    if (!chunk)
        return NULL;
    chunk->size = size;
    chunk->used = 0;
    ASAN_POISON_MEMORY_REGION(chunk->bytes, size);
    /* An oversized chunk is full at once: keep the current one in front, so that its rest is not lost. */
    if (arena->chunks && need > CHUNK_MOST) {
        chunk->next = arena->chunks->next;
        arena->chunks->next = chunk;
    } else {
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    return chunk;
}

void *ck_arena_alloc(struct ck_arena *arena, size_t size) {
    struct ck_arena_chunk *chunk = arena->chunks;
    size_t padded;
    void *p;

    if (size > SIZE_MAX - ALIGNMENT)
        return NULL;
    padded = (CK_MAX(size, (size_t)1) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (padded > arena->limit || arena->used > arena->limit - padded)
        return NULL;
    if (!chunk || chunk->size - chunk->used < padded)
        chunk = chunk_new(arena, padded);
    if (!chunk)
        return NULL;
    p = chunk->bytes + chunk->used;
    chunk->used += padded;
    arena->used += padded;
    ASAN_UNPOISON_MEMORY_REGION(p, size);
    memset(p, 0, size);
    return p;
}

void *ck_arena_alloc_array(struct ck_arena *arena, size_t count, size_t size) {
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return ck_arena_alloc(arena, bytes);
}

char *ck_arena_copy(struct ck_arena *arena, const void *bytes, size_t n) {
    char *p = n < SIZE_MAX ? ck_arena_alloc(arena, n + 1) : NULL;

    if (p && n > 0)
        memcpy(p, bytes, n);
    return p;
}

char *ck_arena_strdup(struct ck_arena *arena, const char *text) {
    return ck_arena_copy(arena, text, strlen(text));
}

char *ck_arena_printf(struct ck_arena *arena, const char *format, ...) {
    va_list args, again;
    char *text = NULL;
    int n;

    va_start(args, format);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, args);
    if (n >= 0)
        text = ck_arena_alloc(arena, (size_t)n + 1);
    if (text)
        vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

void ck_arena_release(struct ck_arena *arena) {
    struct ck_arena_chunk *chunk = arena->chunks;

    while (chunk) {
        struct ck_arena_chunk *next = chunk->next;

        free(chunk);
        chunk = next;
    }
    arena->chunks = NULL;
    arena->used = 0;
}
